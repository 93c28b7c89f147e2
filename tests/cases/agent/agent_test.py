# SPDX-License-Identifier: BSD-3-Clause
"""The small deck of an agent: it learns to swing the pendulum up, an evaluation of what was saved
says the same, and on two ranks it lives through the same as on one."""

import json
import os
import pathlib
import subprocess
import tempfile

TESSERA = os.environ["TESSERA"]
MPIEXEC = os.environ.get("MPIEXEC", "mpiexec")
DECK = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"]) / "input/replicator/d4pg_small.ini"


def run(place, name, verb, *settings, ranks=1):
    """Output of a verb on the deck, and the metrics so far."""
    command = [MPIEXEC, "-n", str(ranks), TESSERA, verb, DECK, f"--run.dir={place / name}", *settings]
    ran = subprocess.run(command, cwd=place, check=True, stdout=subprocess.PIPE, text=True)
    lines = (place / name / "metrics.jsonl").read_text().splitlines()
    return ran.stdout, [json.loads(line) for line in lines]


def values(lines, key):
    return [line[key] for line in lines if key in line]


def check_learns(place):
    _, lines = run(place, "learns", "train")
    rewards = values(lines, "validation_reward")
    assert rewards[0] < 600 and max(rewards[-4:]) > 650, rewards
    assert max(values(lines, "validation_sparse_reward")[-4:]) > 200
    assert len(values(lines, "episode_reward")) >= 6  # of 1,000 steps, in 6,500
    last = [line for line in lines if "loss" in line][-1]
    assert last["environment_steps"] == 4000 + 5999 * 8 and last["transitions"] == 6000 * 96
    assert last["environment_steps_per_s"] > 0 and last["learner_steps_per_s"] > 0
    output, _ = run(place, "learns", "eval", "--json")
    found = json.loads(output)
    assert found["validation_reward"] == rewards[-1] and found["validation_episodes"] == 10, found
    print(f"rewards {', '.join(f'{reward:.0f}' for reward in rewards)}")


def check_ranks(place):
    short = ["--train.steps=20", "--eval.every=10", "--train.dtype=f64"]
    _, one = run(place, "one", "train", *short)
    _, two = run(place, "two", "train", *short, ranks=2)
    for key in ("critic/loss", "policy/loss", "grad_norm", "validation_reward"):
        worst = max(abs(a - b) for a, b in zip(values(one, key), values(two, key), strict=True))
        assert worst < 1e-9, f"{key} differs by {worst}"


def main():
    with tempfile.TemporaryDirectory() as scratch:
        check_ranks(pathlib.Path(scratch))
        check_learns(pathlib.Path(scratch))


if __name__ == "__main__":
    main()
