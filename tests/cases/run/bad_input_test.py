# SPDX-License-Identifier: BSD-3-Clause
"""What a user can get wrong ends with exit code 2 and one message that helps."""

import os

import runs


def refused(place, expected, *settings, verb="train", ranks=2, file="deck.ini", env=None):
    result = place.run(verb, "--run.dir=run", *settings, ranks=ranks, file=file, env=env, expect=2)
    lines = [line for line in result.err.splitlines() if line.startswith("tessera: ")]
    runs.check(len(lines) == 1, "one message", result)
    for text in [expected] if isinstance(expected, str) else expected:
        runs.check(text in result.err, "no", repr(text), "in", result)
    runs.check(not (place.path / "run").exists(), "something was written", result)


def test_decks():
    with runs.Place() as place:
        refused(place, ["unknown key 'optim.learning_rat'", "command line"],
                "--optim.learning_rat=1")
        refused(place, "did you mean 'train.steps'?", "--train.step=1")
        refused(place, ["data.batch", "'3.5' is not a whole number"], "--data.batch=3.5")
        refused(place, ["train.dtype", "f33", "did you mean 'f32'"], "--train.dtype=f33")
        refused(place, ["train.micro_batches = 4", "data.batch = 6"], "--train.micro_batches=4")
        refused(place, ["model.name", "transformr", "did you mean 'transformer'"],
                "--model.name=transformr")
        refused(place, ["there is no such file", "deck.ini"], file="dekc.ini")
        refused(place, ["data.path", "missing.txt"], "--data.path=missing.txt")
        refused(place, "data.length = 13", "--data.length=13")
        refused(place, "no --jsn", "--jsn")
        for flag in ["--explain", "--explain=", "--json=3"]:
            place.run("plan", flag, expect=2)
        (place.path / "twice.ini").write_text("[train]\nsteps = 1\nsteps = 2\n")
        refused(place, ["twice.ini:3", "train.steps"], file="twice.ini")


def test_files_that_are_no_files():
    long = "x" * 300
    with runs.Place() as place:
        (place.path / "folder").mkdir()
        refused(place, "folder", file="folder", ranks=0)
        refused(place, "too long", file=long, ranks=0)
        refused(place, "data.path", f"--data.path={long}", ranks=0)
        refused(place, "data.path", f"--data.path={long}.h5", "--data.source=tokens", ranks=0)
        refused(place, ["train.resume = aut", "did you mean 'auto'"], "--train.resume=aut")
        refused(place, ["data.path", "text.txt", "data.source = text"], "--data.source=tokens",
                ranks=0)
        refused(place, ["train.override", "did you mean 'optim.lr'"], "--train.override=optim.lrr",
                ranks=0)
        refused(place, "train.resume = folder", "--train.resume=folder", ranks=0)
        result = place.run("train", "--run.dir=run", "--run.trace=folder", ranks=2, expect=2)
        runs.check("run.trace" in result.err and "is a folder" in result.err, result)
        result = place.run("train", f"--run.dir={long}", ranks=2, expect=2)
        runs.check("run.dir" in result.err, result)
        place.run("eval", file="folder", expect=2)
        deck = (place.path / "deck.ini").read_text()
        for file in ["deck.ini", "folder", "nowhere/machine.ini"]:
            result = place.run("calibrate", file=file, expect=2)
            runs.check(file in result.err, result)
        place.run("calibrate", "--mesh.shape=batch:1", file="machine.ini", expect=2)
        runs.check((place.path / "deck.ini").read_text() == deck, "the deck was written over")
        runs.check(not list(place.path.glob("*.part")), "something was left")
        result = place.run("plan", f"--plan.machine={long}", expect=2)
        runs.check("too long" in result.err, result)


def test_meshes_and_layouts():
    with runs.Place() as place:
        refused(place, ["batch:3", "2"], "--mesh.shape=batch:3")
        refused(place, ["model", "batch:2,model:1"], "--mesh.shape=batch:2")
        refused(place, ["d_fff"], "--layout.rules=batch:batch,d_fff:model",
                "--mesh.shape=batch:2,model:1")
        refused(place, ["d_model", "d_ff"], "--layout.rules=d_model:batch,d_ff:batch",
                "--mesh.shape=batch:2")


def test_launched_alone():
    with runs.Place() as place:
        refused(place, "--mpi=", ranks=0, env={"SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4",
                                               "SLURM_PROCID": "2", "SLURM_STEP_ID": "0",
                                               "SLURM_JOB_ID": "7"})


def test_memory_that_is_not_there():
    with runs.Place() as place:
        refused(place, ["not enough memory", "available"], "--model.d_model=800000",
                "--model.d_ff=800000", "--model.heads=1")
        refused(place, ["plan.memory_limit = 500kB", "needs"], "--plan.memory_limit=500kB")


def test_verbs():
    with runs.Place() as place:
        result = place.run("trian", expect=2)
        runs.check("did you mean 'train'" in result.err and "usage" in result.err, result)
        refused(place, "there is no checkpoint", verb="eval")
        refused(place, "there is no checkpoint", verb="sample")
        refused(place, "sample.prompt_file", "--sample.prompt_file=none.txt", verb="sample")
        refused(place, "translate.input", verb="translate")
        (place.path / "lines.txt").write_text("a line\n")
        refused(place, "has no source", "--translate.input=lines.txt", verb="translate")
        refused(place, ["sample.beam", "data.length = 12"], "--sample.beam=2", "--sample.length=13")
        refused(place, ["token 120", "model.vocab = 120"], "--model.vocab=120",
                "--sample.length=4", "--sample.prompt=xyz")
        refused(place, "replicate.mode = sync", "--search", "--replicate.mode=async", verb="plan",
                ranks=0)
        result = place.run("plan", "--search", "--plan.ranks=2", "--plan.memory_limit=1kB",
                           expect=2)
        runs.check("the least needs" in result.err, result)
        result = place.run("help", file="optim.lr", expect=0)
        runs.check("learning rate" in result.out.lower(), result)
        for word in ["--help", "-h"]:
            result = place.run("train", "--run.dir=run", word, expect=0)
            runs.check("usage" in result.out and not (place.path / "run").exists(), result)
        result = place.run("help", file="optim.lrr", expect=2)
        runs.check("did you mean 'optim.lr'" in result.err, result)


def test_plan_needs_no_ranks():
    with runs.Place() as place:
        out = place.run("plan", "--json", "--mesh.shape=batch:16,model:32", expect=0).out
        plan = runs.json.loads(out)
        for key in ("parameters", "bytes_per_rank", "flops_per_step", "collectives"):
            runs.check(key in plan, key, plan)
        for key in ("parameters", "gradients", "optimizer", "activations", "workspace", "total"):
            runs.check(key in plan["bytes_per_rank"], key, plan)
        runs.check(plan["collectives"], plan)
        for row in plan["collectives"]:
            for key in ("section", "op", "mesh_dims", "count", "bytes", "bytes_all_ranks"):
                runs.check(key in row, key, row)
        table = place.run("plan", "--mesh.shape=batch:16,model:32", expect=0).out
        runs.check("bytes per rank" in table and "all_reduce" in table, table)
        # The first mesh dim of the rules takes all ranks; * takes those that are left.
        for shape, mesh in [("", "batch:6,model:1"), ("batch:*,model:2", "batch:3,model:2")]:
            out = place.run("plan", "--json", "--plan.ranks=6", f"--mesh.shape={shape}", expect=0).out
            runs.check(runs.json.loads(out)["mesh"] == mesh, shape, out)
        (place.path / "machine.ini").write_text(
            "[machine]\nflops = 1e10\nbandwidth = 1e9\nlatency = 1e-6\n")
        timed = runs.json.loads(place.run("plan", "--json", "--plan.machine=machine.ini",
                                          expect=0).out)
        runs.check(timed["predicted_step_s"] > 0, timed)
        found = runs.json.loads(place.run("plan", "--json", "--search", "--plan.ranks=4",
                                          "--plan.time_limit=5", expect=0).out)
        runs.check(found["best"]["predicted_step_s"] > 0 and set(timed) <= set(found["best"]),
                   found)
        resolved = place.run("plan", "--deck", expect=0).out
        (place.path / "resolved.ini").write_text(resolved)
        again = place.run("plan", "--deck", file="resolved.ini", expect=0).out
        runs.check(again == resolved, again, resolved)


if __name__ == "__main__":
    runs.main(dict(globals()))
