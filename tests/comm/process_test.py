# SPDX-License-Identifier: BSD-3-Clause
"""How jobs start, stop and fail, seen from outside: usage: process_test.py PROBE"""

import atexit
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROBE = os.path.abspath(sys.argv.pop(1))
LIMIT_S = 60


def clean_environment(**more):
    """Without the variables of launchers that this test may itself run under."""
    keep = {k: v for k, v in os.environ.items()
            if not k.startswith(("SLURM_", "PMI_", "PMIX_", "OMPI_", "HYDI_", "OMP_"))}
    return {**keep, **more}


class Job:
    """A probe on some ranks in a folder of its own."""

    def __init__(self, mode, ranks=None, before=(), **environment):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, self.folder)
        self.file = self.folder / "out"
        launch = [os.environ["MPIEXEC"], "-n", str(ranks)] if ranks else []
        self.process = subprocess.Popen(
            [*before, *launch, PROBE, mode, str(self.file)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=clean_environment(**environment))

    def finish(self):
        """Exit code, output and errors, once the job has ended."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out, err

    def pids(self):
        for _ in range(LIMIT_S * 100):
            if self.file.exists():
                return [int(line) for line in self.file.read_text().split()]
            time.sleep(0.01)
        raise AssertionError("the job did not start")


class Processes(unittest.TestCase):
    def test_starts_alone_and_under_a_launcher(self):
        for ranks, size in ((None, "1"), (1, "1"), (2, "2")):
            job = Job("start", ranks)
            self.assertEqual(job.finish()[0], 0)
            self.assertEqual(job.file.read_text().strip(), size)

    def test_slurm_step_without_mpi_is_refused_before_anything_is_written(self):
        job = Job("start", SLURM_NTASKS="4", SLURM_PROCID="2")
        code, out, err = job.finish()
        self.assertEqual(code, 2)
        self.assertIn("Slurm started 4", err)
        self.assertIn("--mpi=", err)
        self.assertEqual(out, "")
        self.assertEqual(list(job.folder.iterdir()), [])

    def test_one_failing_rank_ends_the_job_with_its_message_first(self):
        for mode, text in (("throw", "the probe broke"), ("abort", "the probe gave up"),
                           ("memory", "out of memory"), ("thread", "thrown in a thread")):
            with self.subTest(mode):
                code, _, err = Job(mode, 2).finish()
                self.assertNotEqual(code, 0)
                self.assertEqual(err.split("\n")[0], f"tessera: rank 1: {text}")

    def test_a_signal_to_one_rank_stops_all_at_the_same_step(self):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            for rank in (0, 1):
                job = Job("signal", 2)
                os.kill(job.pids()[rank], number)
                code, out, _ = job.finish()
                self.assertEqual(code, 85)
                lines = [line for line in out.split("\n") if line.startswith("stopped by")]
                self.assertEqual(len(lines), 2, out)
                self.assertEqual(len(set(lines)), 1, out)
                self.assertIn(number.name, lines[0])

    def test_a_hang_ends_with_each_rank_telling_where_it_stands(self):
        code, _, err = Job("hang", 2).finish()
        self.assertNotEqual(code, 0)
        self.assertRegex(err, "rank 0: no progress.*section 'micro', step 'all_reduce'")
        self.assertRegex(err, "rank 1: no progress.*section 'micro', step 'endless'")

    def test_ranks_on_one_core_are_warned_of(self):
        core = str(min(os.sched_getaffinity(0)))
        code, out, _ = Job("cores", 2, before=("taskset", "-c", core)).finish()
        self.assertEqual(code, 0)
        self.assertIn(f"core {core}", out)
        self.assertIn("warning: ranks 0, 1 on", out)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertNotIn("warning", Job("cores", 2).finish()[1])
            self.assertIn("OMP_PROC_BIND=spread",
                          Job("cores", 2, OMP_PROC_BIND="spread").finish()[1])


if __name__ == "__main__":
    unittest.main()
