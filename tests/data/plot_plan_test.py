# SPDX-License-Identifier: BSD-3-Clause
"""tools/plot_plan.py: draws what `tessera plan --json=full` says."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
try:
    import matplotlib  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED: needs the Python packages of tests/requirements.txt: {missing}")
    sys.exit(77)
sys.path.insert(0, str(ROOT / "tools"))
import plot_plan

TOOL = [sys.executable, ROOT / "tools" / "plot_plan.py"]
RULES = "--layout.rules=batch:batch, vocab:model, d_ff:model, heads:model"


def plan_text(deck, *settings, full=True):
    return subprocess.run([os.environ["TESSERA"], "plan", ROOT / "input" / deck,
                           "--json=full" if full else "--json", *settings],
                          capture_output=True, text=True, check=True).stdout


class PlotPlan(unittest.TestCase):
    def test_every_kind_of_mesh_becomes_a_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "plan.png"
            for deck, mesh in [("quickstart.ini", "batch:1"), ("moe.ini", "batch:2"),
                               ("mesh_tensorflow/lm_4.90b.ini", "batch:16,model:32")]:
                plan = plan_text(deck, f"--mesh.shape={mesh}")
                subprocess.run([*TOOL, "-", "-o", picture], check=True, text=True, input=plan,
                               stdout=subprocess.PIPE)
                self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
                picture.unlink()

    def test_memory_and_time_are_the_plans(self):
        plan = json.loads(plan_text("quickstart.ini", "--mesh.shape=batch:2"))
        axis = plot_plan.pyplot.figure().add_subplot()
        plot_plan.draw_memory(axis, plan)
        steps = [(step, min(section["runs"], 4)) for section in plan["timeline"]
                 for step in section["steps"]]
        seconds = sum((step["compute_s"] + step["communication_s"]) * runs for step, runs in steps)
        self.assertAlmostEqual(axis.get_xlim()[1], seconds, delta=1e-9 * seconds)
        most = plan["variable_bytes"] + max(step["live_bytes"] for step, _ in steps)
        top = max(area.get_paths()[0].vertices[:, 1].max() for area in axis.collections)
        self.assertAlmostEqual(top, most / 2**30, places=9)

    def test_a_line_between_any_two_tiles(self):
        plan = json.loads(plan_text("quickstart.ini", "--mesh.shape=batch:2,model:3", RULES))
        axis = plot_plan.pyplot.figure().add_subplot()
        plot_plan.draw_tiles(axis, plan)
        forms = {str([(dim["name"], dim["size"]) for dim in weight["dims"]]): weight
                 for weight in plan["variables"]}
        self.assertLessEqual(len(forms), plot_plan.WEIGHTS)
        cuts = [name for weight in forms.values() for dim in weight["dims"]
                for name in dim["mesh_dims"]]
        self.assertIn("model", cuts)
        self.assertEqual(len(axis.lines), 2 * cuts.count("model") + cuts.count("batch"))

    def test_a_plan_without_its_steps_is_refused(self):
        ran = subprocess.run([*TOOL, "-"], capture_output=True, text=True,
                             input=plan_text("quickstart.ini", full=False))
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("--json=full", ran.stderr)


if __name__ == "__main__":
    unittest.main()
