# SPDX-License-Identifier: BSD-3-Clause
"""The install tree is whole, and a program outside of the source tree builds against it and trains
its own model with its own operation."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = os.environ["TESSERA_BUILD_DIR"]
MPIEXEC = os.environ["MPIEXEC"]
STEPS = 30


def run(*command, **options):
    """Runs a command; fails with all that it printed unless it ends with 0."""
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    if ran.returncode != 0:
        raise AssertionError(f"{command} ended with {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


class Outside(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="tessera_outside_")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        run("cmake", "-S", HERE / "program", "-B", cls.folder / "build", "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_PREFIX_PATH={cls.prefix}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        run("cmake", "--build", cls.folder / "build", "--parallel", "2")
        cls.program = cls.folder / "build" / "outside"

    def losses(self, name, ranks, *arguments):
        """The training losses of a run of the outside program."""
        out = self.folder / name
        run(MPIEXEC, "-n", ranks, self.program, "train", HERE / "program" / "bigram.ini",
            f"--run.dir={out}", f"--train.steps={STEPS}", *arguments)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        losses = [line["loss"] for line in lines if "grad_norm" in line]
        self.assertEqual(len(losses), STEPS)
        return losses

    def assert_close(self, a, b):
        for step, (one, other) in enumerate(zip(a, b, strict=True), 1):
            self.assertLessEqual(abs(one - other), 1e-9 * abs(one), f"step {step}")

    def test_install_tree(self):
        for path in ["bin/tessera", "include/tessera/app/app.hpp", "share/tessera/input",
                     "share/tessera/jobs/train_cpu.sbatch", "share/tessera/tools/plot_run.py"]:
            self.assertTrue((self.prefix / path).exists(), path)
        self.assertEqual(len(list(self.prefix.glob("lib*/**/libtessera.a"))), 1)
        # The text that the embedded default trains on is the installed tree's own.
        self.assertIn("train", run(self.prefix / "bin/tessera", "help", cwd=self.folder))

    def test_an_installed_deck_goes_on(self):
        share = self.prefix / "share/tessera"
        for steps in (1, 2):  # the run's own files, which lie in the tree, are no part of its text
            run(MPIEXEC, "-n", "1", self.prefix / "bin/tessera", "train", share / "input/lm.ini",
                f"--train.steps={steps}", "--model.layers=1", "--data.batch=2", "--data.length=16",
                "--eval.every=0", "--sample.length=0")
        self.assertTrue((share / "runs/lm/checkpoints/step_00000002.h5").exists())

    def test_own_model_trains_like_the_same_model_of_ready_made_operations(self):
        own = self.losses("own", 1)
        self.assertLess(own[-1], own[0] - 0.5)
        self.assert_close(own, self.losses("ready_made", 1, "--model.ready_made=true"))

    def test_own_operation_on_any_layout(self):
        whole = self.losses("whole", 1)
        for rules in ["batch:ranks", "hidden:ranks", "vocab:ranks"]:
            self.assert_close(whole, self.losses(rules.replace(":", "_"), 2, "--mesh.shape=ranks:2",
                                                 f"--layout.rules={rules}"))

    def test_every_verb_knows_the_model(self):
        deck = HERE / "program" / "bigram.ini"
        self.assertIn("model.hidden", run(self.program, "help", "model.hidden",
                                          "--model.name=bigram"))
        plan = json.loads(run(self.program, "plan", deck, "--mesh.shape=ranks:4",
                              "--layout.rules=batch:ranks", "--json"))
        self.assertEqual(plan["parameters"], 2 * 256 * 32)

    def follow_page(self, path, name, most_lines):
        """Types whatever a page says to type; the losses of its runs by their folders."""
        page = (self.prefix / path).read_text()
        blocks = {kind: text for kind, text in
                  re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)}
        folder = self.folder / name
        folder.mkdir()
        for kind, file in [("cpp", f"{name}.cpp"), ("cmake", "CMakeLists.txt"), ("ini", f"{name}.ini")]:
            (folder / file).write_text(blocks[kind])
        lines = [line for line in blocks["cpp"].splitlines() if line and line[0] != "#"]
        self.assertLessEqual(len(lines), most_lines)
        run("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", cwd=folder)
        run("cmake", "--build", "build", cwd=folder)
        losses = {}
        for command in map(shlex.split, blocks["sh"].splitlines()):
            run(MPIEXEC, *command[1:], cwd=folder)
            out = next(word for word in command if word.startswith("--run.dir=")).split("=")[1]
            metrics = (folder / out / "metrics.jsonl").read_text().splitlines()
            self.lines[out] = [row for row in map(json.loads, metrics) if "grad_norm" in row]
            losses[out] = [row["loss"] for row in self.lines[out]]
        return losses, folder

    def setUp(self):
        self.lines = {}

    def test_the_newcomers_page(self):
        losses, folder = self.follow_page("include/tessera/README.md", "two_layers", 40)
        self.assertEqual(list(losses), ["one", "data", "model", "both"])
        self.assertEqual(len(losses["one"]), 40)
        self.assertLess(losses["one"][-1], losses["one"][0] - 1)
        for other in losses.values():
            self.assert_close(losses["one"], other)
        plan = run(folder / "build" / "two_layers", "plan", "two_layers.ini", "--mesh.shape=data:8",
                   "--layout.rules=batch:data", "--explain=first", cwd=folder)
        self.assertIn("first", plan)

    def test_the_page_of_replicas(self):
        losses, _ = self.follow_page("include/tessera/replicate/README.md", "spirals", 60)
        self.assertEqual(list(losses), ["one", "two", "eight", "split"])
        self.assertEqual(len(losses["one"]), 60)
        self.assertLess(losses["one"][-1], losses["one"][0] / 2)
        for other in losses.values():
            self.assert_close(losses["one"], other)
        for name, replicas in [("one", 1), ("two", 2), ("eight", 8), ("split", 2)]:
            last = self.lines[name][-1]
            self.assertEqual(len(last["replica_accuracy"]), replicas)
            mean = sum(last["replica_accuracy"]) / replicas
            self.assertAlmostEqual(mean, last["accuracy"], places=6)


if __name__ == "__main__":
    unittest.main()
