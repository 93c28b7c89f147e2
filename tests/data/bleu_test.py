# SPDX-License-Identifier: BSD-3-Clause
"""tools/bleu.py: scores files line by line, and refuses files that do not belong together."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import sacrebleu  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED: needs the Python packages of tests/requirements.txt: {missing}")
    sys.exit(77)

TOOL = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"]) / "tools/bleu.py"
LINES = ["the cat sat on the mat .", "ten green birds sing in the wood , don 't they ?"]


class Bleu(unittest.TestCase):
    def score(self, reference, translation, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "reference.txt")
            path.write_text("\n".join(reference) + "\n", encoding="utf-8")
            return subprocess.run([sys.executable, str(TOOL), str(path), "-", *options],
                                  input="\n".join(translation) + "\n", capture_output=True,
                                  text=True, check=False)

    def test_scores(self):
        done = self.score(LINES, LINES, "--tokenize", "none", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertAlmostEqual(json.loads(done.stdout)["bleu"], 100)
        self.assertIn("tok:none", json.loads(done.stdout)["signature"])
        done = self.score([LINES[0].replace(" ", "\r", 1), LINES[1]], LINES)  # two lines still
        self.assertEqual(done.returncode, 0, done.stderr)
        worse = self.score(LINES, [LINES[0], "ten green cats sing in the wood ."], "--json")
        self.assertLess(json.loads(worse.stdout)["bleu"], 80)

    def test_lines_without_reference_are_refused(self):
        done = self.score(LINES, LINES[:1])
        self.assertEqual(done.returncode, 2)
        self.assertIn("1 translations of 2 references", done.stderr)


if __name__ == "__main__":
    unittest.main()
