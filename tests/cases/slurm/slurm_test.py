# SPDX-License-Identifier: BSD-3-Clause
"""A job that does not get done within its time limit is signalled, saves, is requeued, resumes, and
ends with the metrics of a run that nobody disturbed. On a real Slurm, started on this machine for
the test. So that neither a fast nor a busy machine matters, and nothing computes while the test waits
for the limit, the ranks are frozen (SIGSTOP) in the middle of their run until the warning is there."""

import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile
import time

import cluster as slurm

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
TESSERA = os.environ["TESSERA"]
DECK = HERE / "run.ini"
RANKS = 2
STEPS = 400
# Steps that are done when the ranks are frozen.
FROZEN_AFTER = 20
# What depends on the clock differs between two runs.
CLOCK = {"step_s", "tokens_per_s", "time", "wall_s"}


def metrics(folder):
    """The lines of a run's metrics without what the clock says."""
    lines = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in CLOCK}
            for line in lines]


def train(cluster, folder):
    """An undisturbed run under srun."""
    cluster.run("srun", "--mpi=pmi2", f"--ntasks={RANKS}", TESSERA, "train", DECK,
                f"--run.dir={folder}", f"--train.steps={STEPS}", seconds=300)


def until(ready, seconds, complaint):
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, f"{complaint} within {seconds} s"
        time.sleep(0.02)


def steps_done(folder):
    try:
        return (folder / "metrics.jsonl").read_text().count("\n")
    except FileNotFoundError:
        return 0


def ranks_of(folder):
    """Process ids of the ranks that train into a folder."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if arguments[0] == os.fsencode(TESSERA) and f"--run.dir={folder}".encode() in arguments:
                found.append(int(process.name))
    return found


def is_frozen(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    except FileNotFoundError:
        return False


def freeze_until_warned(run):
    """Stops the ranks in the middle of their run; Slurm wakes them when it signals them."""
    frozen = ranks_of(run)
    try:
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        assert steps_done(run) < STEPS, "the run was over before it could be frozen"
        until(lambda: not any(is_frozen(pid) for pid in frozen), 70, "no warning came")
    finally:
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def restarts(cluster, job):
    return int(cluster.job(job)["Restarts"])


def disturbed(cluster, folder):
    """The job that runs out of time; returns its log and what Slurm says of it at the end."""
    run = folder / "run"
    job = cluster.submit("--time=1", "--signal=USR1@20", f"--ntasks-per-node={RANKS}",
                         "--output=job.log", ROOT / "jobs/train_cpu.sbatch", DECK,
                         f"--run.dir={run}", f"--train.steps={STEPS}", cwd=folder,
                         environment={"TESSERA": TESSERA, "SRUN_MPI": "pmi2"})
    # On a machine so busy that the warning comes first, nothing needs to be frozen.
    until(lambda: steps_done(run) >= FROZEN_AFTER or restarts(cluster, job) >= 1, 120,
          f"fewer than {FROZEN_AFTER} steps")
    freeze_until_warned(run)
    until(lambda: restarts(cluster, job) >= 1, 60, "the job was not requeued")
    cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=10")  # it may be slow from here on
    saved = sorted((run / "checkpoints").glob("step_*.h5"))
    assert saved, "the job was requeued without a checkpoint"
    ended = cluster.wait(job, {"COMPLETED"}, seconds=180)
    return (folder / "job.log").read_text(), ended


def check(reference, resumed, log, ended):
    assert ended["ExitCode"] == "0:0", ended["ExitCode"]
    assert int(ended["Restarts"]) >= 1, "the job was never requeued"
    assert "stopped by a signal" in log and "Requeueing job" in log, log
    steps_of = [line["step"] for line in resumed if "grad_norm" in line]
    assert steps_of == list(range(1, STEPS + 1)), "steps are missing or there twice"
    for one, other in zip(reference, resumed, strict=True):
        assert one == other, f"undisturbed: {one}\nresumed:     {other}"


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_slurm_") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        for part in ["slurm", "job"]:
            (folder / part).mkdir()
        try:
            cluster = stack.enter_context(slurm.Cluster(folder / "slurm", cores=RANKS))
        except slurm.Cannot as why:
            print(f"SKIPPED: Slurm does not start on this machine: {why}")
            return 77
        try:
            log, ended = disturbed(cluster, folder / "job")
        finally:
            for path in (folder / "job").glob("job.log"):
                print(path.read_text(), flush=True)
        train(cluster, folder / "undisturbed")
        check(metrics(folder / "undisturbed"), metrics(folder / "job" / "run"), log, ended)
        print(f"requeued {ended['Restarts']} time(s), {STEPS} steps equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
