# SPDX-License-Identifier: BSD-3-Clause
"""A job whose time limit is too short is signalled, saves, is requeued, resumes, and ends with the
metrics of a run that nobody disturbed; and so does one of which a rank is killed. On a real Slurm,
started on this machine for the test."""

import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import cluster as slurm

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
TESSERA = os.environ["TESSERA"]
DECK = HERE / "run.ini"
RANKS = 2
# The limit is one minute, the least that Slurm knows, and the warning comes 10 to 50 seconds after
# the start. A run of this many seconds cannot end before it.
SECONDS = 65
PROBE_STEPS = 200
# What depends on the clock differs between two runs.
CLOCK = {"step_s", "tokens_per_s", "time", "wall_s"}


def metrics(folder):
    """The lines of a run's metrics without what the clock says."""
    lines = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in CLOCK}
            for line in lines]


def train(cluster, folder, steps):
    """An undisturbed run under srun."""
    cluster.run("srun", "--mpi=pmi2", f"--ntasks={RANKS}", TESSERA, "train", DECK,
                f"--run.dir={folder}", f"--train.steps={steps}", seconds=300)


def disturbed(cluster, folder, steps):
    """The job that runs out of time; returns its log and what Slurm says of it at the end, or None
    if the run was over before its time was."""
    job = cluster.submit("--time=1", "--signal=USR1@20", f"--ntasks-per-node={RANKS}",
                         "--output=job.log", ROOT / "jobs/train_cpu.sbatch", DECK,
                         f"--run.dir={folder / 'run'}", f"--train.steps={steps}", cwd=folder,
                         environment={"TESSERA": TESSERA, "SRUN_MPI": "pmi2"})
    cluster.wait(job, {"RUNNING"}, seconds=30)
    if cluster.wait(job, {"PENDING", "COMPLETED"}, seconds=90)["JobState"] == "COMPLETED":
        return None
    saved = sorted((folder / "run" / "checkpoints").glob("step_*.h5"))
    assert saved, "the job was requeued without a checkpoint"
    # A busy machine may need a third allocation.
    ended = cluster.wait(job, {"COMPLETED"}, seconds=360)
    return (folder / "job.log").read_text(), ended


def killed(cluster, folder, *settings):
    """A job of which one rank is killed behind a checkpoint goes on from there, each step once, and
    has lost at most the steps between two checkpoints."""
    steps, every = 3 * PROBE_STEPS, PROBE_STEPS // 2
    job = cluster.submit(f"--ntasks-per-node={RANKS}", "--output=job.log",
                         ROOT / "jobs/train_cpu.sbatch", DECK, f"--run.dir={folder / 'run'}",
                         f"--train.steps={steps}", f"--checkpoint.every={every}", *settings,
                         cwd=folder, environment={"TESSERA": TESSERA, "SRUN_MPI": "pmi2"})
    checkpoints = folder / "run" / "checkpoints"
    end = time.monotonic() + 120
    while not list(checkpoints.glob("step_*.h5")):
        assert time.monotonic() < end, (folder / "job.log").read_text()
        time.sleep(0.1)
    ranks = subprocess.run(["pgrep", "-f", f"train {DECK} --run.dir={folder / 'run'}"],
                           capture_output=True, text=True, check=True).stdout.split()
    victims = [rank for rank in ranks
               if pathlib.Path(f"/proc/{rank}/exe").resolve() == pathlib.Path(TESSERA).resolve()]
    assert len(victims) == RANKS, victims
    text = (folder / "run" / "metrics.jsonl").read_text()
    reached = int(re.findall(r'"step": (\d+),', text)[-1])
    os.kill(int(victims[-1]), signal.SIGKILL)
    ended = cluster.wait(job, {"COMPLETED"}, seconds=300)
    log = (folder / "job.log").read_text()
    # A busy machine may run into the time limit, too.
    assert int(ended["Restarts"]) >= 1 and "Killed" in log and "Requeueing job" in log, log
    resumed = [int(step) for step in re.findall(r"resumed from .* at step (\d+)", log)]
    assert resumed and reached - resumed[0] <= every, f"killed after {reached}, on at {resumed}"
    done = [line["step"] for line in metrics(folder / "run") if "grad_norm" in line]
    assert done == list(range(1, steps + 1)), "steps are missing or there twice"


def check(reference, resumed, log, ended, steps):
    assert ended["ExitCode"] == "0:0", ended["ExitCode"]
    assert int(ended["Restarts"]) >= 1, "the job was never requeued"
    assert "Requeueing job" in log, log
    steps_of = [line["step"] for line in resumed if "grad_norm" in line]
    assert steps_of == list(range(1, steps + 1)), "steps are missing or there twice"
    for one, other in zip(reference, resumed, strict=True):
        assert one == other, f"undisturbed: {one}\nresumed:     {other}"


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_slurm_") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        for part in ["slurm", "job", "killed", "async"]:
            (folder / part).mkdir()
        try:
            cluster = stack.enter_context(slurm.Cluster(folder / "slurm", cores=RANKS))
        except slurm.Cannot as why:
            print(f"SKIPPED: Slurm does not start on this machine: {why}")
            return 77
        train(cluster, folder / "probe", PROBE_STEPS)
        killed(cluster, folder / "killed")
        # A server and a worker; Slurm ends the one with the other.
        killed(cluster, folder / "async", "--replicate.mode=async", "--mesh.shape=batch:1")
        print("a job of which a rank was killed went on", flush=True)
        lines = (folder / "probe" / "metrics.jsonl").read_text().splitlines()
        timed = [step["step_s"] for step in map(json.loads, lines) if "step_s" in step]
        per_step = statistics.mean(timed[PROBE_STEPS // 10:])
        steps = max(10, round(SECONDS / per_step))
        print(f"{1000 * per_step:.2f} ms a step, {steps} steps", flush=True)
        told = disturbed(cluster, folder / "job", steps)
        if told is None:
            # The machine has become faster since it was timed.
            steps *= 3
            (folder / "again").mkdir()
            told = disturbed(cluster, folder / "again", steps)
        assert told, "the job ended before its time limit twice"
        log, ended = told
        print(log, flush=True)
        train(cluster, folder / "undisturbed", steps)
        job = folder / ("again" if (folder / "again").exists() else "job")
        check(metrics(folder / "undisturbed"), metrics(job / "run"), log, ended, steps)
        print(f"requeued {ended['Restarts']} time(s), {steps} steps equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
