# SPDX-License-Identifier: BSD-3-Clause
"""A real Slurm on this machine alone: munged, slurmctld and slurmd, all in one temporary folder.

    with Cluster(folder, cores=2) as cluster:
        job = cluster.submit("jobs/train_cpu.sbatch", ...)
        cluster.wait(job, {"COMPLETED"}, seconds=60)

Nothing outside the folder is touched: own ports, own key, own configuration. Cannot is raised when
this machine does not let Slurm start; the caller then reports a skipped test.
"""

import contextlib
import ctypes
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time

NEEDED = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel"]
FINAL = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"}

CONFIGURATION = """\
ClusterName=tessera
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=pmi2
ReturnToService=2
JobRequeue=1
KillWait=10
MinJobAge=3600
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={cores} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Cannot(Exception):
    """Slurm cannot run here, and why."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def die_with_parent():
    """A killed test must leave no daemon behind: the kernel ends them with it."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Cluster:
    def __init__(self, folder, cores):
        self.folder = pathlib.Path(folder)
        self.cores = cores
        self.daemons = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"),
                            "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}

    def __enter__(self):
        lacking = [tool for tool in NEEDED
                   if not shutil.which(tool, path=self.environment["PATH"])]
        if lacking:
            raise Cannot(f"not installed: {', '.join(lacking)} (Debian: slurm-wlm, munge)")
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def _start(self):
        host = socket.gethostname().split(".")[0]
        for name in ["state", "spool"]:
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        # munged insists on folders that only their owner can write.
        self.folder.chmod(0o755)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=host, folder=self.folder, cores=self.cores, controller_port=free_port(),
            node_port=free_port(), user=self._user()))
        self._daemon("munged", "--foreground", "--force", f"--key-file={key}",
                     f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                     f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munge.seed")
        self._until(lambda: (self.folder / "munge.socket").exists(), 10, "munged did not start")
        self._daemon("slurmctld", "-D", "-i")
        self._until(lambda: "UP" in self.run("scontrol", "ping", check=False), 20,
                    "slurmctld did not start")
        self._daemon("slurmd", "-D", "-N", host)
        self._until(lambda: re.search(r"State=IDLE\b(?!\*)", self.run("scontrol", "show", "node",
                                                                      check=False)),
                    30, "slurmd did not register")

    @staticmethod
    def _user():
        import pwd
        return pwd.getpwuid(os.getuid()).pw_name

    def _daemon(self, *command):
        log = open(self.folder / f"{command[0]}.out", "wb")
        self.daemons.append(subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            env=self.environment, start_new_session=True, preexec_fn=die_with_parent))

    def _until(self, ready, seconds, complaint):
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline or any(d.poll() is not None for d in self.daemons):
                raise Cannot(f"{complaint}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self):
        """The last lines that each daemon wrote."""
        told = []
        for path in sorted(self.folder.glob("*.out")):
            told += [f"--- {path.name}"] + path.read_text(errors="replace").splitlines()[-15:]
        return "\n".join(told)

    def run(self, *command, check=True, seconds=60):
        """What the command printed; RuntimeError with all of it if it fails."""
        command = [str(part) for part in command]
        ran = subprocess.run(command, env=self.environment, capture_output=True, text=True,
                             timeout=seconds)
        if check and ran.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def submit(self, *arguments, cwd, environment=None):
        """sbatch with these arguments, in the folder `cwd`; the job's id."""
        ran = subprocess.run(["sbatch", "--parsable", *map(str, arguments)], cwd=cwd, text=True,
                             env={**self.environment, **(environment or {})}, capture_output=True)
        if ran.returncode != 0:
            raise RuntimeError(f"sbatch: {ran.stderr}")
        return ran.stdout.strip()

    def job(self, identifier):
        """What Slurm knows of a job: {"JobState": "RUNNING", "Restarts": "0", …}."""
        shown = self.run("scontrol", "show", "job", identifier, "--oneliner")
        return dict(field.split("=", 1) for field in shown.split() if "=" in field)

    def wait(self, identifier, wanted, seconds):
        """Polls until the job's state is one of `wanted`; returns the job. Ends early on a final
        state."""
        deadline = time.monotonic() + seconds
        while True:
            job = self.job(identifier)
            if job["JobState"] in wanted:
                return job
            if job["JobState"] in FINAL or time.monotonic() > deadline:
                raise AssertionError(f"job is {job['JobState']} (exit {job['ExitCode']}), "
                                     f"not {wanted}\n{self.logs()}")
            time.sleep(0.2)

    def stop(self):
        """Ends the jobs, then the daemons, the last started first."""
        if len(self.daemons) == 3:
            with contextlib.suppress(Exception):
                self.run("scancel", "--state=PENDING")
                self.run("scancel", "--state=RUNNING")
                deadline = time.monotonic() + 15
                while self.run("squeue", "--noheader").strip() and time.monotonic() < deadline:
                    time.sleep(0.2)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons.clear()
