# SPDX-License-Identifier: BSD-3-Clause
"""tools/plot_run.py: reads metrics as runs leave them and draws what they say."""

import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
try:
    import matplotlib
    import numpy
except ImportError as missing:
    print(f"SKIPPED: needs the Python packages of tests/requirements.txt: {missing}")
    sys.exit(77)
sys.path.insert(0, str(ROOT / "tools"))
import plot_run


def metrics(steps, speed, every=20):
    """Lines of metrics.jsonl of a run whose loss falls as 5 / sqrt(step)."""
    lines = []
    for step in range(1, steps + 1):
        lines.append(json.dumps({"step": step, "epoch": 0, "loss": 5 / math.sqrt(step),
                                 "grad_norm": 1.0, "lr": 0.1, "tokens": 2048,
                                 "step_s": 2048 / speed, "tokens_per_s": speed}))
        if step % every == 0:
            lines.append(json.dumps({"step": step, "validation_loss": 5.5 / math.sqrt(step)}))
    return "\n".join(lines) + "\n"


class PlotRun(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def write(self, name, text):
        (self.folder / name).mkdir()
        (self.folder / name / "metrics.jsonl").write_text(text)
        return str(self.folder / name)

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "tools/plot_run.py", *arguments],
                              capture_output=True, text=True)

    def test_a_picture_of_two_runs(self):
        runs = [self.write("fast", metrics(100, 9000)), self.write("slow", metrics(60, 4000))]
        output = str(self.folder / "both.png")
        ran = self.run_tool(*runs, "-o", output, "--log")
        self.assertEqual((ran.returncode, ran.stdout.strip()), (0, output), ran.stderr)
        picture = pathlib.Path(output).read_bytes()
        self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">II", picture[16:24]), (960, 840))
        self.assertEqual(self.run_tool(runs[0]).returncode, 0)
        self.assertTrue(os.path.exists(f"{runs[0]}/curves.png"))

    def curves(self, *arguments):
        """The lines that are drawn, by their names in the legends."""
        options = plot_run.parse(list(arguments))
        figure = plot_run.draw([plot_run.read_run(path) for path in options.run], options)
        found = {line.get_label(): line.get_xydata() for axis in figure.axes for line in axis.lines}
        plot_run.pyplot.close(figure)
        return found

    def test_curves_are_the_metrics(self):
        run = self.write("lm", metrics(100, 9000))
        found = self.curves(run, "--smooth", "1")
        numpy.testing.assert_allclose(found["lm"][:, 1], 5 / numpy.sqrt(numpy.arange(1, 101)))
        numpy.testing.assert_allclose(found["lm, validation"][:, 0], [20, 40, 60, 80, 100])
        numpy.testing.assert_allclose(found["lm: median 9,000"][:, 1], 9000)
        smooth = self.curves(run, "--smooth", "10")["lm"]
        self.assertAlmostEqual(smooth[49, 1], numpy.mean(5 / numpy.sqrt(numpy.arange(41, 51))))
        hours = self.curves(run, "--x", "hours")["lm, validation"]
        numpy.testing.assert_allclose(hours[-1, 0], 100 * 2048 / 9000 / 3600)

    def test_a_loss_that_was_not_finite_is_a_gap(self):
        run = self.write("lm", metrics(4, 10) + '{"step": 5, "loss": null, "tokens_per_s": 10}\n'
                         + '{"step": 6, "loss": 2.0, "tokens_per_s": 10}\n')
        loss = self.curves(run, "--smooth", "1")["lm"][:, 1]
        self.assertTrue(math.isnan(loss[4]))
        self.assertEqual(loss[5], 2.0)

    def test_a_run_that_is_being_written(self):
        run = self.write("lm", metrics(10, 10) + '{"step": 11, "lo')
        self.assertEqual(plot_run.read_run(run).step[-1], 10)

    def test_any_keys_of_the_metrics(self):
        lines = [json.dumps({"step": 10 * i, "validation_reward": 7.0 * i}) for i in range(1, 5)]
        runs = [self.write("agent", "\n".join(lines) + "\n"), self.write("lm", metrics(40, 10))]
        options = plot_run.parse([*runs, "--keys", "validation_reward,validation_loss"])
        figure = plot_run.draw_keys([plot_run.read_run(path) for path in runs], options)
        reward, loss = figure.axes
        numpy.testing.assert_allclose(reward.lines[0].get_xydata(),
                                      [[10, 7], [20, 14], [30, 21], [40, 28]])
        self.assertEqual([line.get_label() for line in loss.lines], ["lm"])
        plot_run.pyplot.close(figure)
        ran = self.run_tool(runs[0], "--keys", "reward")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("no run has the key reward; there are step, validation_reward", ran.stderr)

    def test_errors_name_the_file(self):
        odd = "no json\n" + metrics(2, 1)
        for name, text, message in [("empty", "", "holds no steps"),
                                    ("odd", odd, "metrics.jsonl:1 is no line")]:
            ran = self.run_tool(self.write(name, text))
            self.assertEqual(ran.returncode, 2)
            self.assertIn(message, ran.stderr)
        ran = self.run_tool(str(self.folder / "nowhere"))
        self.assertEqual(ran.returncode, 2)
        self.assertIn("cannot read", ran.stderr)


if __name__ == "__main__":
    unittest.main()
