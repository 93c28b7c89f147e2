# SPDX-License-Identifier: BSD-3-Clause
"""tools/prepare_pairs.py: sequences can be had back, side by side, and bad input is refused."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import numpy
    import sentencepiece
except ImportError as missing:
    print(f"SKIPPED: needs the Python packages of tests/requirements.txt: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
WORDS = "the king of naïve wood saw ten green-eyed birds , über all a b c d e f g ☃ 1 2 3".split()


def sentence(number, step):
    return " ".join(WORDS[(number * 7 + k * k * step) % len(WORDS)] for k in range(3 + number % 5))


class PreparePairs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.sources = [sentence(number, 1) for number in range(80)]
        cls.targets = [sentence(number, 3) for number in range(80)]
        cls.sources[5] = "  "  # an empty side: this pair is left out
        cls.kept = [number for number in range(80) if number != 5]
        cls.write("a.txt", "\n".join(cls.sources) + "\n")
        cls.write("b.txt", "\n".join(cls.targets) + "\n")
        done = cls.run_tool("pairs.h5", "a.txt", "b.txt", "--vocab", "300",
                            "--validation-fraction", "0.1")
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def write(cls, name, text):
        (cls.folder / name).write_text(text, encoding="utf-8")

    @classmethod
    def run_tool(cls, output, source, target, *options):
        command = [sys.executable, ROOT / "tools/prepare_pairs.py", cls.folder / output,
                   "--source", cls.folder / source, "--target", cls.folder / target, *options]
        return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              check=False)

    def sequences(self, file, name):
        ends = file[f"{name}_ends"][...]
        return numpy.split(file[name][...], ends[:-1])

    def test_sequences_can_be_had_back(self):
        with h5py.File(self.folder / "pairs.h5") as file:
            model = sentencepiece.SentencePieceProcessor(
                model_proto=bytes(file["sentencepiece_model"][...]))
            self.assertEqual(file.attrs["vocab"], 300)
            self.assertEqual(len(file["pieces/ends"]), 300)
            pieces = bytes(file["pieces/bytes"][...])
            ends = file["pieces/ends"][...]
            for side, texts in (("source", self.sources), ("target", self.targets)):
                found = []
                for part in ("train", "validation"):
                    self.assertIsNotNone(file[f"{part}/{side}"].id.get_offset())  # contiguous
                    found += self.sequences(file, f"{part}/{side}")
                self.assertEqual(len(found), 79)
                self.assertEqual(len(self.sequences(file, f"validation/{side}")), 7)
                for number, ids in zip(self.kept, found):
                    self.assertEqual(ids[-1], 1)
                    self.assertNotIn(0, ids)
                    self.assertEqual(model.decode([int(i) for i in ids[:-1]]), texts[number])
                    printed = b"".join(pieces[ends[i - 1]:ends[i]] for i in ids[:-1])
                    self.assertEqual(printed.decode().removeprefix(" "), texts[number])

    def test_another_text_is_encoded_with_the_same_model(self):
        done = self.run_tool("more.h5", "a.txt", "b.txt", "--model", self.folder / "pairs.h5",
                             "--validation-fraction", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(self.folder / "more.h5") as file, \
                h5py.File(self.folder / "pairs.h5") as first:
            self.assertNotIn("validation", file)
            self.assertEqual(len(file["train/source_ends"]), 79)
            begin = first["train/source"][...]
            self.assertTrue((file["train/source"][:len(begin)] == begin).all())

    def test_a_carriage_return_alone_ends_no_line(self):
        self.write("cr.txt", "\n".join(self.sources).replace(" ", "\r", 1) + "\n")
        done = self.run_tool("cr.h5", "cr.txt", "b.txt", "--model", self.folder / "pairs.h5")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_bad_input_is_refused(self):
        self.write("short.txt", "\n".join(self.targets[:-1]) + "\n")
        for source, target, options, message in (
                ("a.txt", "short.txt", ["--vocab", "300"], "differ in length"),
                ("a.txt", "none.txt", [], "there is no file"),
                ("a.txt", "b.txt", ["--vocab", "100000"], "cannot train a vocabulary of 100000")):
            done = self.run_tool("bad.h5", source, target, *options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)
            self.assertFalse((self.folder / "bad.h5").exists())


if __name__ == "__main__":
    unittest.main()
