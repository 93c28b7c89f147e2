# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous training over MPI goes on without a rank that is killed."""

import os
import signal
import subprocess

import runs
from async_test import ASYNC, counts, lines, process_of

# UCX ends a process that is reading the memory of one on the same node when that is killed.
os.environ.setdefault("UCX_TLS", "^cma")


def test_the_others_end_when_a_worker_is_killed():
    """Each node has a launcher proxy of its own; here the last rank's stands for another node."""
    with runs.Place() as place:
        launcher = [runs.MPIEXEC, "-disable-auto-cleanup", "-hosts", "localhost:3,127.0.0.1:1",
                    "-n", "4"]
        probe = subprocess.run([*launcher[:-1], "4", "true"], capture_output=True)
        if probe.returncode != 0:
            print("skipped: this launcher takes no second name of the local host", flush=True)
            return
        steps = 400
        place.command = lambda verb, *settings, ranks=0, file="deck.ini": [
            *launcher, runs.TESSERA, verb, file, *settings]
        process = place.start("train", *ASYNC, "--run.dir=run", "--mesh.shape=batch:1,model:1",
                              f"--train.steps={steps}", "--replicate.dead_after=1",
                              "--run.stop_signals=TERM")
        try:
            runs.wait_for(lambda: lines(place) > 20, "steps")
            os.kill(process_of(process, 3), signal.SIGKILL)
            out, err = process.communicate(timeout=100)
        finally:
            process.kill()
        runs.check("group 2 (rank 3) has been silent" in out, out, err)
        runs.check(f"done: {steps} steps" in out, out, err)
        runs.check(place.checkpoints("run")[-1] == f"step_{steps:08d}.h5", place.checkpoints("run"))
        runs.check(sum(counts(place, "group_updates")) == steps, place.metrics("run")[-1])
        runs.check(sum(counts(place, "staleness_counts")) == steps, place.metrics("run")[-1])


if __name__ == "__main__":
    runs.main(globals())
