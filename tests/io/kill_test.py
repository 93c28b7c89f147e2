# SPDX-License-Identifier: BSD-3-Clause
"""Kills a rank in the middle of saves: what was saved before stays whole, and nothing hangs.

kill_test.py SAVER RANKS KILLS_PER_RANK"""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"SKIPPED: {missing}; tools/test installs what the tests need")
    sys.exit(77)

LIMIT = 120  # seconds in which a job must end after one of its ranks died


def digest(array):
    bits = array.reshape(-1).view(f"u{array.itemsize}").astype(np.uint64)
    z = bits + np.arange(1, bits.size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    low = z ^ (z >> np.uint64(29))
    high = low * np.uint64(0xBF58476D1CE4E5B9)
    high ^= high >> np.uint64(32)
    return f"{int(np.sum(high)):016x}{int(np.sum(low)):016x}"


def damaged_tensors(file):
    found = []

    def check(name, item):
        if isinstance(item, h5py.Dataset) and digest(np.asarray(item)) != item.attrs["digest"].decode():
            found.append(name)

    with h5py.File(file, "r") as index:
        index.visititems(check)
    return found


def wait_for(condition, job):
    begin = time.monotonic()
    while not condition():
        assert job.poll() is None, f"the job ended by itself: {job.returncode}"
        assert time.monotonic() - begin < LIMIT, "no checkpoint appears"
        time.sleep(0.001)


def kill_once(saver, ranks, victim, folder, first, rng):
    """Starts a job, kills one rank during its second or a later save, returns the steps it reported."""
    checkpoints = os.path.join(folder, "checkpoints")
    job = subprocess.Popen([os.environ["MPIEXEC"], "-n", str(ranks), saver, folder, str(first), "1000",
                            "3"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    target = os.path.join(checkpoints, f"step_{first + rng.randrange(2):08}.h5")
    wait_for(lambda: os.path.exists(target), job)
    if rng.random() < 0.7:  # a save lasts some milliseconds: aim at one
        wait_for(lambda: any(name.endswith(".h5.part") for name in os.listdir(checkpoints)), job)
    time.sleep(rng.random() * 0.03)
    with open(os.path.join(folder, f"pid.{victim}"), encoding="ascii") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    out, _ = job.communicate(timeout=LIMIT)
    assert job.returncode != 0
    # Whole lines only: the kill may cut the last one.
    return [int(step) for step in re.findall(r"^saved (\d+)\b.*\n", out, re.MULTILINE)]


def main(saver, ranks, kills):
    rng = random.Random(20)
    in_mid_save = 0
    with tempfile.TemporaryDirectory() as folder:
        first = 1
        for turn in range(kills * ranks):
            reported = kill_once(saver, ranks, turn % ranks, folder, first, rng)
            names = os.listdir(os.path.join(folder, "checkpoints"))
            in_mid_save += any(name.endswith(".h5.part") for name in names)
            steps = sorted(int(name[5:13]) for name in names if name.endswith(".h5"))
            assert steps, names
            for step in steps:  # none that has its name may be broken
                file = os.path.join(folder, "checkpoints", f"step_{step:08}.h5")
                assert damaged_tensors(file) == [], file
            newest = max(reported, default=first - 1)
            assert steps[-1] >= newest, f"step {newest} was reported as saved, but {steps} are there"
            first = steps[-1] + 1
    print(f"{kills * ranks} kills, {in_mid_save} in the middle of a save")
    assert in_mid_save > 0, "no kill met a save: the test tests nothing"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
