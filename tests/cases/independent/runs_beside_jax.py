# SPDX-License-Identifier: BSD-3-Clause
"""What the tests against programs in JAX share: JAX in float64 on the CPU, a training run, and its
checkpoint read with h5py. Without the packages the test that imports this is skipped."""

import json
import os
import subprocess
import sys

try:
    import h5py
    import jax
except ImportError as error:
    print(f"SKIPPED: {error}; tests/requirements.txt names what this test needs")
    sys.exit(77)
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402


def variables(path, groups=("variables",)):
    """All variables of a checkpoint's groups by name; running statistics are in the group state."""
    found = {}
    with h5py.File(path) as file:
        def keep(name, item):
            if isinstance(item, h5py.Dataset):
                found[name] = jnp.asarray(item[()], jnp.float64)
        for group in groups:
            file[group].visititems(keep)
    return found


def run(place, verb, ranks, *settings):
    """What a verb prints about place/deck.ini."""
    command = [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(ranks), os.environ["TESSERA"], verb, "deck.ini"]
    return subprocess.run([*command, *settings], cwd=place, check=True, stdout=subprocess.PIPE).stdout.decode()


def train(place, name, ranks, *settings):
    """Trains place/deck.ini; its newest checkpoint, and its metrics with a loss."""
    run(place, "train", ranks, f"--run.dir={name}", *settings)
    newest = max((place / name / "checkpoints").glob("step_*.h5"))
    metrics = place / name / "metrics.jsonl"
    text = metrics.read_text() if metrics.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    return newest, [line for line in lines if "loss" in line]
