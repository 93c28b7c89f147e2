# SPDX-License-Identifier: BSD-3-Clause
"""Stops are agreed, saved, and told by the exit code."""

import os
import signal

import runs

LONG = ["--train.steps=100000", "--run.dir=run", "--train.resume=auto"]


def stop_by(place, when, send, settings=(), ranks=2, expect=85):
    """Starts a long run, waits until `when` and sends; checks code and what is on disk."""
    process = place.start("train", *LONG, *settings, ranks=ranks)
    try:
        when(process)
        send(process)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    codes = expect if isinstance(expect, tuple) else (expect,)
    runs.check(process.returncode in codes, "expected", expect, "got", process.returncode, out,
               err)
    step = [m["step"] for m in place.metrics("run")][-1] if (
        place.path / "run" / "metrics.jsonl").read_text() else 0
    runs.check(place.checkpoints("run")[-1] == f"step_{step:08d}.h5", place.checkpoints("run"),
               step, out, err)
    return out


def to_rank(number, name):
    def send(process):
        pids = runs.wait_for(lambda: runs.children_of(process.pid), "ranks")
        os.kill(pids[number % len(pids)], name)
    return send


def after_step(place, step):
    return lambda process: runs.wait_for_step(place, "run", step)


def test_a_signal_to_any_rank_stops_all():
    for number, name in [(0, signal.SIGUSR1), (1, signal.SIGUSR1), (1, signal.SIGTERM)]:
        with runs.Place() as place:
            out = stop_by(place, after_step(place, 3), to_rank(number, name))
            runs.check("train.resume=auto goes on from here" in out, out)
            stop_by(place, after_step(place, len(place.losses("run")) + 2),
                    to_rank(number, name))


def test_a_signal_to_the_launcher_reaches_the_run():
    with runs.Place() as place:
        # MPICH's mpiexec forwards the signal, but now and then loses the ranks' exit code after it.
        out = stop_by(place, after_step(place, 3), lambda p: p.send_signal(signal.SIGUSR1),
                      expect=(85, 0))
        runs.check("stopped by a signal" in out, out)


def test_signals_while_starting_evaluating_and_saving():
    def catches_usr1(pid):
        mask = [line for line in open(f"/proc/{pid}/status") if line.startswith("SigCgt")]
        return int(mask[0].split()[1], 16) >> (signal.SIGUSR1 - 1) & 1

    def when_it_starts(process):
        pids = runs.wait_for(
            lambda: (p := runs.children_of(process.pid)) and len(p) == 2 and p, "ranks")
        runs.wait_for(lambda: all(catches_usr1(pid) for pid in pids), "handlers")

    with runs.Place() as place:
        process = place.start("train", *LONG, ranks=2)
        when_it_starts(process)
        to_rank(1, signal.SIGUSR1)(process)
        out, err = process.communicate(timeout=60)
        runs.check(process.returncode == 85, process.returncode, out, err)
    with runs.Place(size=60000) as place:
        out = stop_by(place, after_step(place, 1), to_rank(1, signal.SIGUSR1), ["--eval.every=1"])
        # The interrupted evaluation comes first on resume, so no metrics are missing.
        process = place.start("train", *LONG, "--eval.every=1", ranks=2)
        last = len(place.losses("run"))
        runs.wait_for_step(place, "run", last + 1)
        process.terminate()
        process.communicate(timeout=60)
        steps = [m["step"] for m in place.metrics("run") if "validation_loss" in m]
        runs.check(steps[:last] == list(range(1, last + 1)), steps, last)
    with runs.Place() as place:
        stop_by(place, after_step(place, 2), to_rank(0, signal.SIGTERM), ["--checkpoint.every=1"])


def test_repeated_signals_are_one_stop():
    def send(process):
        pids = runs.wait_for(lambda: runs.children_of(process.pid), "ranks")
        for name in (signal.SIGUSR1, signal.SIGTERM) * 3:
            for pid in pids:
                try:
                    os.kill(pid, name)
                except ProcessLookupError:
                    pass

    with runs.Place() as place:
        out = stop_by(place, after_step(place, 2), send)
        runs.check(out.count("stopped by") == 1, out)


def test_the_stop_file_is_consumed():
    with runs.Place() as place:
        file = place.path / "run" / "stop"
        out = stop_by(place, after_step(place, 2), lambda p: file.write_text(""), expect=0)
        runs.check("stop file" in out and not file.exists(), out)


def test_wall_time_and_the_end_of_a_job():
    with runs.Place() as place:
        result = place.run("train", *LONG, "--run.walltime=5s", ranks=2, expect=85)
        runs.check(result.seconds < 30 and "stopped by the wall time" in result.out, result)
    with runs.Place() as place:
        result = place.run("train", *LONG, ranks=2, expect=85,
                           env={"SLURM_JOB_END_TIME": str(int(runs.time.time()) + 20)})
        runs.check(result.seconds < 20 and "stopped by the wall time" in result.out, result)


def test_a_resumed_run_without_a_new_step_fails():
    with runs.Place() as place:
        place.run("train", *LONG, "--run.walltime=4s", ranks=1, expect=85)
        result = place.run("train", *LONG, "--run.walltime=0.01s", ranks=1, expect=1)
        runs.check("before a single new step" in result.out, result)


def test_a_dead_rank_ends_the_job():
    for rank in (0, 1):
        with runs.Place() as place:
            process = place.start("train", *LONG, "--checkpoint.every=2", ranks=2)
            runs.wait_for_step(place, "run", 5)
            begin = runs.time.time()
            to_rank(rank, signal.SIGKILL)(process)
            out, err = process.communicate(timeout=60)
            runs.check(process.returncode not in (0, 85), process.returncode, out, err)
            runs.check(runs.time.time() - begin < 20, "took", runs.time.time() - begin, "s")
            saved = int(place.checkpoints("run")[-1][5:13])
            result = place.run("train", "--run.dir=run", "--train.resume=auto",
                               f"--train.steps={saved + 2}", "--optim.schedule_steps=100000",
                               ranks=2, expect=0)
            runs.check(f"at step {saved}" in result.out, saved, result)


def test_the_trace_shows_every_rank():
    with runs.Place() as place:
        place.run("train", "--run.dir=run", "--run.trace=trace.json", "--eval.every=6", ranks=2,
                  expect=0)
        events = runs.json.loads((place.path / "trace.json").read_text())["traceEvents"]
        ranks = {event["pid"] if event.get("tid", 0) == 0 else event["tid"] for event in events
                 if event.get("ph") == "X"}
        names = " ".join(str(event.get("name")) for event in events)
        runs.check(len(ranks) >= 2, ranks)
        runs.check("checkpoint" in names and "evaluation" in names, names[:2000])


if __name__ == "__main__":
    runs.main(dict(globals()))
