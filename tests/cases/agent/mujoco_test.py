# SPDX-License-Identifier: BSD-3-Clause
"""An agent in a task of dm_control's suite, wrapped by a few lines of XML, on two ranks: every step
that it lived through is the one that MuJoCo's Python package makes, it lives alike on one rank, and a
run that is resumed goes on bitwise."""

import importlib.util
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import h5py
    import mujoco
    import numpy as np
except ImportError as error:
    print(f"SKIPPED: {error}; tests/requirements.txt names what this test needs")
    sys.exit(77)

TESSERA = os.environ["TESSERA"]
MPIEXEC = os.environ.get("MPIEXEC", "mpiexec")
COUNT, WARMUP, STEPS, PER_UPDATE, FRAMES, HORIZON, GAMMA = 5, 60, 12, 2, 2, 20, 0.9
# The pole hangs at first; where it stands upright its own z axis points up.
TASK = """\
<mujoco>
  <include file="cartpole.xml"/>
  <sensor><framezaxis name="up" objtype="xbody" objname="pole_1"/></sensor>
  <keyframe><key qpos="0 3.14159265"/></keyframe>
</mujoco>
"""
DECK = f"""\
[model]
name = d4pg
hidden = 12
layers = 2
atoms = 11
v_max = 10
target_period = 3
[env]
name = mujoco
model = swing_up.xml
reward = up
frames = {FRAMES}
horizon = {HORIZON}
count = {COUNT}
steps_per_update = {PER_UPDATE}
warmup = {WARMUP}
replay = 1000
n_step = 1
gamma = {GAMMA}
[data]
batch = 13
[optim]
lr = 0.002
schedule_steps = {STEPS}
[train]
steps = {STEPS}
dtype = f64
[eval]
every = 6
episodes = 2
[layout]
rules = batch:batch, environment:batch
"""


def suite():
    """The folder of dm_control's suite, found without importing it: that would look for a display."""
    package = importlib.util.find_spec("dm_control")
    if package is None:
        print("SKIPPED: no dm_control; tests/requirements.txt names what this test needs")
        sys.exit(77)
    return pathlib.Path(package.submodule_search_locations[0]) / "suite"


def write_task(place):
    shutil.copy(suite() / "cartpole.xml", place)
    (place / "common").mkdir()
    for file in (suite() / "common").glob("*.xml"):
        shutil.copy(file, place / "common")
    (place / "swing_up.xml").write_text(TASK)
    (place / "deck.ini").write_text(DECK)


def train(place, name, ranks, *settings):
    """Lines of the run's metrics, without times."""
    ran = subprocess.run([MPIEXEC, "-n", str(ranks), TESSERA, "train", "deck.ini",
                          f"--run.dir={name}", *settings], cwd=place, capture_output=True, text=True)
    if "built without MuJoCo" in ran.stderr:
        print("SKIPPED: built without MuJoCo")
        sys.exit(77)
    assert ran.returncode == 0, ran.stderr
    lines = (place / name / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if not key.endswith("_s")}
            for line in lines]


def check_numbers(lines):
    learnt = [line for line in lines if "loss" in line]
    assert [line["step"] for line in learnt] == list(range(1, STEPS + 1)), learnt
    for number, line in enumerate(learnt):
        for key in ("loss", "critic/loss", "policy/loss", "grad_norm"):
            assert line[key] is not None and math.isfinite(line[key]), line
        assert line["environment_steps"] == WARMUP + number * PER_UPDATE * COUNT, line
    rewards = [line["validation_reward"] for line in lines if "validation_reward" in line]
    assert len(rewards) == 2 and all(0 < reward < HORIZON for reward in rewards), rewards


class Physics:
    """The task in MuJoCo's own Python package."""

    def __init__(self, file):
        self.model = mujoco.MjModel.from_xml_path(str(file))
        self.data = mujoco.MjData(self.model)

    def step(self, seen, action):
        """What is seen next, and the reward."""
        x, cos, sin, *speeds = seen
        self.data.qpos[:] = x, math.atan2(sin, cos)
        self.data.qvel[:] = speeds
        self.data.ctrl[:] = action
        for _ in range(FRAMES):
            mujoco.mj_step(self.model, self.data)
        mujoco.mj_forward(self.model, self.data)
        x, angle = self.data.qpos
        return [x, math.cos(angle), math.sin(angle), *self.data.qvel], (1 + self.data.sensordata[2]) / 2


def check_experience(place, name):
    """Each transition of the replay against the physics; where episodes begin and what follows."""
    with h5py.File(place / name / "checkpoints" / f"step_{STEPS:08}.h5") as file:
        rows = file["env/replay/transitions"][()].astype(np.float64)
        counts = file["env/replay/counts"][()].astype(int)
    lived = WARMUP // COUNT + (STEPS - 1) * PER_UPDATE
    assert list(counts) == [lived] * COUNT and lived > HORIZON, counts
    rows = rows[:, :lived]
    seen, action, reward, discount, after = np.split(rows, [5, 6, 7, 8], axis=2)
    assert after.shape == seen.shape and np.abs(action).max() <= 1 and np.all(discount == np.float32(GAMMA))
    physics = Physics(place / "swing_up.xml")
    worst = 0
    for e in range(COUNT):
        for i in range(lived):
            wanted, earned = physics.step(seen[e, i], action[e, i])
            worst = max(worst, np.abs(after[e, i] - wanted).max(), abs(reward[e, i, 0] - earned))
    assert worst < 1e-5, worst
    begins = seen[:, 0::HORIZON]
    assert np.all(begins[..., 1] < -0.9999) and np.abs(begins[..., [0, 2]]).max() < 0.0101, begins
    assert len(np.unique(begins[..., 0])) == begins[..., 0].size, "episodes begin alike"
    goes_on = np.arange(1, lived) % HORIZON != 0
    assert np.array_equal(seen[:, 1:][:, goes_on], after[:, :-1][:, goes_on])
    print(f"{COUNT * lived} steps within {worst:.1e} of MuJoCo's")


def check_alike(one, two):
    for a, b in zip(one, two, strict=True):
        for key in ("critic/loss", "policy/loss", "grad_norm", "validation_reward"):
            assert abs(a.get(key, 0) - b.get(key, 0)) < 1e-9, (key, a, b)


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_mujoco_") as folder:
        place = pathlib.Path(folder)
        write_task(place)
        whole = train(place, "whole", 2)
        check_numbers(whole)
        check_experience(place, "whole")
        check_alike(train(place, "one", 1), whole)
        train(place, "parts", 2, f"--train.steps={STEPS // 2}")
        assert train(place, "parts", 2, "--train.resume=auto") == whole, "a resumed run differs"


if __name__ == "__main__":
    main()
