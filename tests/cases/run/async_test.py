# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous training over MPI: slow workers, bounds, resume between modes."""

import os
import pathlib
import signal
import time

import runs

# Few lines: nobody reads what is printed before the end, and a full pipe would stop the run.
ASYNC = ["--replicate.mode=async", "--run.log_seconds=1000"]


def rank_of(pid):
    """What the launcher calls this process."""
    for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if entry.startswith(b"PMI_RANK="):
            return int(entry.split(b"=")[1])
    return -1


def process_of(launcher, rank):
    return {rank_of(pid): pid for pid in runs.children_of(launcher.pid)}[rank]


def lines(place, folder="run"):
    file = place.path / folder / "metrics.jsonl"
    return file.read_text().count("\n") if file.exists() else 0


def counts(place, key, folder="run"):
    return [line[key] for line in place.metrics(folder) if key in line][-1]


def test_staleness_0_gives_the_synchronous_numbers_over_mpi():
    with runs.Place() as place:
        place.run("train", "--run.dir=sync", "--mesh.shape=batch:1,model:1", expect=0)
        # Two servers and two groups of two ranks.
        place.run("train", *ASYNC, "--run.dir=async", "--replicate.servers=2",
                  "--replicate.staleness=0", "--mesh.shape=batch:1,model:2", ranks=6, expect=0)
        runs.check(runs.close(place.losses("sync"), place.losses("async"), 1e-9),
                   place.losses("sync"), place.losses("async"))
        # Without a bound the counts add up; then a synchronous run goes on.
        more = ["--run.dir=async", "--train.resume=auto", "--optim.schedule_steps=12",
                "--train.override=optim.schedule_steps"]
        place.run("train", *ASYNC, *more, "--train.steps=30", "--mesh.shape=batch:1,model:1",
                  ranks=4, expect=0)
        runs.check(sum(counts(place, "group_updates", "async")) == 18, place.metrics("async")[-1])
        place.run("train", *more, "--train.steps=33", "--mesh.shape=batch:2,model:1", ranks=2,
                  expect=0)
        runs.check(len(place.losses("async")) == 33, place.losses("async"))


def test_a_stopped_worker_keeps_nobody():
    with runs.Place() as place:
        process = place.start("train", *ASYNC, "--run.dir=run", "--mesh.shape=batch:1,model:1",
                              "--train.steps=100000", "--replicate.dead_after=1", ranks=4)
        try:
            runs.wait_for(lambda: lines(place) > 20, "steps")
            worker = process_of(process, 3)
            os.kill(worker, signal.SIGSTOP)
            time.sleep(10)
            before = lines(place)
            runs.wait_for(lambda: lines(place) > before + 20, "steps of the others")
            os.kill(worker, signal.SIGCONT)
            before = lines(place)
            runs.wait_for(lambda: lines(place) > before + 50, "steps of all")
            (place.path / "run" / "stop").touch()
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        runs.check(process.returncode == 0, process.returncode, out, err)
        runs.check("group 2 (rank 3) has been silent" in out and "group 2 (rank 3) is back" in out,
                   out)
        updates = counts(place, "group_updates")
        runs.check(sum(updates) == len(place.losses("run")), updates, len(place.losses("run")))


def test_a_signal_to_any_rank_stops_the_run():
    for rank in (1, 3):  # a server, a worker
        with runs.Place() as place:
            process = place.start("train", *ASYNC, "--run.dir=run", "--replicate.servers=2",
                                  "--mesh.shape=batch:1,model:1", "--train.steps=100000", ranks=4)
            try:
                runs.wait_for(lambda: lines(place) > 5, "steps")
                os.kill(process_of(process, rank), signal.SIGTERM)
                out, err = process.communicate(timeout=60)
            finally:
                process.kill()
            runs.check(process.returncode == 85 and "stopped by a signal" in out,
                       process.returncode, out, err)


def test_bad_groups_are_refused():
    with runs.Place() as place:
        result = place.run("train", *ASYNC, "--replicate.group=2", "--mesh.shape=", ranks=4,
                           expect=2)
        runs.check("cannot be cut into groups of 2" in result.err, result)
        result = place.run("plan", *ASYNC, "--replicate.servers=2", "--mesh.shape=batch:2,model:1",
                           "--plan.ranks=8", expect=0)
        runs.check("servers: 2" in result.out and "groups: 3 of 2 ranks" in result.out, result)


if __name__ == "__main__":
    runs.main(globals())
