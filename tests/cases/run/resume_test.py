# SPDX-License-Identifier: BSD-3-Clause
"""A resumed run is the same run, and what must not resume is refused."""

import os
import random
import signal
import time

import runs


def straight(place, *settings, ranks=2):
    place.run("train", "--run.dir=straight", *settings, ranks=ranks, expect=0)
    return place.metrics("straight")


def test_resume_on_the_same_mesh_is_bitwise():
    settings = ["--train.steps=12", "--eval.every=4", "--optim.schedule=warmup*cosine",
                "--optim.warmup=3", "--train.micro_batches=2"]
    with runs.Place() as place:
        expected = straight(place, *settings)
        resumed = ["--run.dir=resumed", "--train.resume=auto"]
        first = settings[:0] + ["--train.steps=5"] + settings[1:] + ["--optim.schedule_steps=12"]
        place.run("train", *resumed, *first, ranks=2, expect=0)
        # schedule_steps is kept from the first start.
        place.run("train", *resumed, *settings, ranks=2, expect=0)
        metrics = [m for m in place.metrics("resumed")]
        # The end of the first part evaluates at its own last step.
        metrics = [m for m in metrics if not ("validation_loss" in m and m["step"] == 5)]
        runs.check(metrics == expected, metrics, expected)


def test_resume_on_other_meshes():
    with runs.Place() as place:
        expected = [m["loss"] for m in straight(place, ranks=1)]
        for mesh, ranks in [("batch:2,model:1", 2), ("batch:1,model:2", 2), ("batch:1,model:3", 3),
                            ("batch:2,model:2", 4)]:
            folder = f"r{mesh.replace(':', '').replace(',', '_')}"
            place.run("train", f"--run.dir={folder}", "--train.resume=auto", "--train.steps=6",
                      "--optim.schedule_steps=12", f"--mesh.shape={mesh}", ranks=ranks, expect=0)
            place.run("train", f"--run.dir={folder}", "--train.resume=auto", ranks=1, expect=0)
            runs.check(runs.close(place.losses(folder), expected, 1e-9), mesh,
                       place.losses(folder), expected)


def test_resume_on_other_stages():
    settings = ["--model.stages=2", "--layout.rules=batch:batch", "--train.micro_batches=3",
                "--train.resume=auto"]
    one, two = ["--mesh.shape=batch:1,stage:1"], ["--mesh.shape=batch:1,stage:2"]
    with runs.Place() as place:
        place.run("train", "--run.dir=one", *settings, *one, ranks=1, expect=0)
        half = ["--train.steps=6", "--optim.schedule_steps=12", "--run.trace=trace.json"]
        place.run("train", "--run.dir=hops", *settings, *two, *half, ranks=2, expect=0)
        place.run("train", "--run.dir=hops", *settings, *one, ranks=1, expect=0)
        runs.check(runs.close(place.losses("hops"), place.losses("one"), 1e-9),
                   place.losses("hops"), place.losses("one"))
        # Each stage has a row in the trace, and shows when it waits for the other.
        events = runs.json.loads((place.path / "trace.json").read_text())["traceEvents"]
        for rank in range(2):
            kinds = [e.get("cat") for e in events if e["tid"] == rank]
            # 3 micro-batches in 6 steps: activations one way, their gradients the other.
            runs.check(kinds.count("send") >= 18 and kinds.count("receive") >= 18, rank, kinds)
        names = [e["args"]["name"] for e in events if e.get("name") == "thread_name"]
        runs.check(sorted(names) == ["rank 0, stage 0", "rank 1, stage 1"], names)


def test_killed_at_a_random_moment():
    with runs.Place() as place:
        settings = ["--train.steps=40", "--checkpoint.every=3", "--checkpoint.keep=2"]
        expected = straight(place, *settings)
        generator = random.Random(os.getpid())
        command = ["--run.dir=killed", "--train.resume=auto", *settings]
        for _ in range(3):
            process = place.start("train", *command, ranks=2)
            ranks = runs.wait_for(lambda: runs.children_of(process.pid), "ranks")
            time.sleep(generator.uniform(0.3, 1.5))
            for pid in ranks:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.communicate(timeout=60)
        place.run("train", *command, ranks=2, expect=0)
        metrics = place.metrics("killed")
        runs.check(metrics == expected, metrics, expected)


def test_a_broken_checkpoint_is_skipped_with_a_warning():
    with runs.Place() as place:
        expected = straight(place, "--checkpoint.every=4")
        file = place.path / "straight" / "checkpoints" / "step_00000012.h5"
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        result = place.run("train", "--run.dir=straight", "--train.resume=auto",
                           "--checkpoint.every=4", ranks=2, expect=0)
        runs.check("warning: " in result.out and "step_00000012.h5" in result.out, result)
        runs.check("step_00000008.h5" in result.out, result)
        runs.check(place.metrics("straight") == expected, result)


def test_what_is_trained_must_not_change():
    with runs.Place() as place:
        place.run("train", "--run.dir=run", "--train.steps=2", "--optim.schedule_steps=12",
                  ranks=1, expect=0)
        changed = ["--run.dir=run", "--train.resume=auto", "--optim.lr=0.5"]
        result = place.run("train", *changed, ranks=2, expect=2)
        runs.check("optim.lr = 0.01 in the checkpoint, 0.5 now" in result.err, result)
        runs.check("train.override = optim.lr" in result.err, result)
        runs.check(result.err.count("optim.lr = 0.01") == 1, "printed once", result)
        place.run("train", *changed, "--train.override=optim.lr", ranks=1, expect=0)
        (place.path / "text.txt").write_text(runs.text_of(3500))
        result = place.run("train", "--run.dir=run", "--train.resume=auto", "--optim.lr=0.5",
                           "--train.steps=20", ranks=1, expect=2)
        runs.check("not what the checkpoint was trained on" in result.err, result)


def test_used_folders_and_two_jobs():
    with runs.Place() as place:
        place.run("train", "--run.dir=run", "--train.steps=2", ranks=1, expect=0)
        result = place.run("train", "--run.dir=run", ranks=1, expect=2)
        runs.check("train.resume" in result.err and "run.overwrite" in result.err, result)
        place.run("train", "--run.dir=run", "--run.overwrite=true", "--train.steps=3", ranks=1,
                  expect=0)
        runs.check(len(place.losses("run")) == 3)
        first = place.start("train", "--run.dir=both", "--train.steps=100000", ranks=1)
        try:
            runs.wait_for_step(place, "both", 2)
            result = place.run("train", "--run.dir=both", "--train.resume=auto", ranks=1, expect=2)
            runs.check("lock" in result.err or "another" in result.err, result)
        finally:
            for pid in runs.children_of(first.pid):
                os.kill(pid, signal.SIGUSR1)
            out, err = first.communicate(timeout=60)
        runs.check(first.returncode == 85, first.returncode, out, err)


def test_steps_that_are_done_stay_done():
    with runs.Place() as place:
        expected = straight(place)
        result = place.run("train", "--run.dir=straight", "--train.resume=auto", ranks=2, expect=0)
        runs.check("done: 12 steps" in result.out, result)
        runs.check(place.metrics("straight") == expected, result)


def test_start_from_weights():
    with runs.Place() as place:
        place.run("train", "--run.dir=first", ranks=1, expect=0)
        result = place.run("train", "--run.dir=second",
                           "--train.init_from=first/checkpoints/step_00000012.h5",
                           "--model.layers=3", "--train.steps=3", ranks=2, expect=0)
        runs.check("begin anew" in result.out and "layer_2" in result.out, result)
        runs.check(place.losses("second")[0] < place.losses("first")[0] - 0.3,
                   place.losses("second"), place.losses("first"))


def test_weights_of_an_evaluation():
    first = "first/checkpoints/step_00000012.h5"
    with runs.Place() as place:
        place.run("train", "--run.dir=first", ranks=1, expect=0)
        place.run("train", "--run.dir=second", f"--train.init_from={first}", "--train.steps=3",
                  ranks=1, expect=0)
        own = "second/checkpoints/step_00000003.h5"
        asked = [(own, ["--run.dir=second", f"--train.init_from={first}"]),  # the run's own first
                 (first, ["--run.dir=third", f"--train.init_from={first}"]),
                 (first, ["--run.dir=second", f"--train.resume={first}"])]
        for file, settings in asked:
            found = runs.json.loads(place.run("eval", "--json", *settings, ranks=1, expect=0).out)
            wanted = runs.json.loads(place.run("eval", "--json", file=file, ranks=1, expect=0).out)
            runs.check(found.pop("checkpoint").endswith(wanted.pop("checkpoint")), file, found)
            runs.check(found == wanted, settings, found, wanted)


if __name__ == "__main__":
    runs.main(dict(globals()))
