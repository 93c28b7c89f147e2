# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous training over MPI goes on without a rank that is killed."""

import os
import signal
import subprocess

import runs
from async_test import ASYNC, counts, lines, process_of

# UCX ends a process that is reading the memory of one on the same node when that is killed.
os.environ.setdefault("UCX_TLS", "^cma")


def kill_the_last(place, ranks, mesh, steps):
    """Kills the last of so many ranks while they train, and checks that the others end; what they
    print, nothing if this machine cannot tell. Each node has a launcher proxy of its own; here the
    last rank's stands for another node."""
    launcher = [runs.MPIEXEC, "-disable-auto-cleanup", "-hosts",
                f"localhost:{ranks - 1},127.0.0.1:1", "-n", str(ranks)]
    probe = subprocess.run([*launcher, "true"], capture_output=True)
    if probe.returncode != 0:
        print("skipped: this launcher takes no second name of the local host", flush=True)
        return None
    place.command = lambda verb, *settings, ranks=0, file="deck.ini": [
        *launcher, runs.TESSERA, verb, file, *settings]
    process = place.start("train", *ASYNC, "--run.dir=run", f"--mesh.shape={mesh}",
                          f"--train.steps={steps}", "--replicate.dead_after=1",
                          "--run.stop_signals=TERM")
    try:
        runs.wait_for(lambda: lines(place) > 20, "steps")
        os.kill(process_of(process, ranks - 1), signal.SIGKILL)
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    runs.check(f"done: {steps} steps" in out, out, err)
    return out, err


def test_the_others_end_when_a_worker_is_killed():
    with runs.Place() as place:
        steps = 400
        printed = kill_the_last(place, 4, "batch:1,model:1", steps)
        if not printed:
            return
        runs.check("group 2 (rank 3) has been silent" in printed[0], *printed)
        runs.check(place.checkpoints("run")[-1] == f"step_{steps:08d}.h5", place.checkpoints("run"))
        runs.check(sum(counts(place, "group_updates")) == steps, place.metrics("run")[-1])
        runs.check(sum(counts(place, "staleness_counts")) == steps, place.metrics("run")[-1])


def test_a_group_is_left_when_one_of_its_ranks_is_killed():
    with runs.Place() as place:
        printed = kill_the_last(place, 5, "batch:2,model:1", 100)
        if not printed:
            return
        out, err = printed
        runs.check("rank 4 of group 1 (ranks 3-4) has been silent" in out, out, err)
        runs.check("rank 3: rank 4 of this group is lost; leaving" in err, out, err)
        runs.check(sum(counts(place, "staleness_counts")) == 100, place.metrics("run")[-1])


if __name__ == "__main__":
    runs.main(globals())
