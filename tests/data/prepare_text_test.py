# SPDX-License-Identifier: BSD-3-Clause
"""tools/prepare_text.py: what it writes is what Tessera reads, and the text can be had back.

usage: prepare_text_test.py PRINT_TOKENS
"""

import hashlib
import json
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
PRINT_TOKENS = sys.argv.pop(1)
WORDS = ("the king of naïve wood\tsaw ten green-eyed birds, über all; a b c d e f g\u2603 h1 i2 j3"
         .split(" "))


def paragraph(number):
    """Some lines of text that differ from paragraph to paragraph, odd white space included."""
    lines = []
    for line in range(2 + number % 3):
        words = [WORDS[(number * 7 + line * 3 + k * k) % len(WORDS)]
                 for k in range(5 + number % 4)]
        lines.append(("  " if line % 2 else "") + " ".join(words) + f" {number}{' ' * (line % 2)}\n")
    return "".join(lines)


class PrepareText(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.paragraphs = [paragraph(number) for number in range(60)]
        cls.text = cls.write("text.txt", "\n".join(cls.paragraphs))
        cls.file = cls.prepare("text.h5", cls.text, "--vocab", "340", "--separator", "blank-line")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def write(cls, name, content):
        path = cls.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    @classmethod
    def run_tool(cls, name, *arguments):
        command = [sys.executable, ROOT / "tools/prepare_text.py", cls.folder / name, *arguments]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True)

    @classmethod
    def prepare(cls, name, *arguments):
        ran = cls.run_tool(name, *arguments)
        assert ran.returncode == 0, ran.stderr
        return str(cls.folder / name)

    def read(self, *arguments):
        """What Tessera reads from a token file."""
        ran = subprocess.run([PRINT_TOKENS, *arguments], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = {}
        for line in ran.stdout.splitlines():
            name, _, rest = line.partition(" ")
            found[name] = (bytes.fromhex(rest).decode() if name.endswith("_text")
                           else [int(word) for word in rest.split()])
        return found

    def refusal(self, *arguments):
        ran = subprocess.run([PRINT_TOKENS, *arguments], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 2, ran.stdout)
        self.assertIn(arguments[0], ran.stderr)
        return ran.stderr

    def test_the_text_can_be_had_back(self):
        found = self.read(self.file)
        self.assertEqual(found["vocab"], [340])
        # Of 60 documents the 20th, 40th and 60th are for validation.
        kept = [text for number, text in enumerate(self.paragraphs) if number % 20 != 19]
        self.assertEqual(found["train_text"], "".join(kept))
        self.assertEqual(found["validation_text"], "".join(self.paragraphs[19::20]))
        self.assertEqual(found["train_ids"].count(1), 57)
        self.assertEqual(found["validation_ids"].count(1), 3)
        self.assertEqual(found["validation_ids"][-1], 1)

    def test_ids_and_pieces_are_those_of_sentencepiece(self):
        with h5py.File(self.file) as file:
            model = sentencepiece.SentencePieceProcessor(
                model_proto=bytes(file["sentencepiece_model"][...]))
        found = self.read(self.file)
        expected = []
        for text in self.paragraphs[19::20]:
            expected += model.encode(text) + [1]
        self.assertEqual(found["validation_ids"], expected)
        self.assertEqual(found["validation_text"], model.decode(expected))
        # What Tessera itself encodes (prompts, sources) is cut in the same way.
        for text in self.paragraphs[:8] + ["über 3 \u2603 trees", "q", "the wood, all the ☃ of j3"]:
            self.assertEqual(self.read(self.file, "0", text)["encoded"], model.encode(text))

    def test_what_the_file_says_of_itself(self):
        with h5py.File(self.file) as file:
            self.assertEqual(file.attrs["format"], "tessera tokens 1")
            self.assertEqual(file["tokens/train"].dtype, numpy.dtype("<u2"))
            for part in ("tokens/train", "tokens/validation"):
                ids = file[part][...]
                self.assertIsNone(file[part].chunks)
                self.assertEqual(file[part].attrs["max_id"], ids.max())
                self.assertEqual(file[part].attrs["digest"],
                                 hashlib.blake2b(ids.tobytes(), digest_size=16).hexdigest())
            told = json.loads(file.attrs["provenance"])
        self.assertEqual(told["documents"], 60)
        self.assertEqual(told["inputs"], [{"path": self.text, "bytes": os.path.getsize(self.text)}])
        self.assertEqual(list(self.folder.glob("*.part")), [])

    def test_a_given_model_gives_the_same_ids(self):
        again = self.prepare("again.h5", self.text, "--model", self.file,
                             "--separator", "blank-line")
        self.assertEqual(self.read(again), self.read(self.file))

    def test_lines_and_files_as_documents(self):
        lines = self.prepare("lines.h5", self.text, "--model", self.file, "--separator", "line",
                             "--validation-fraction", "0")
        found = self.read(lines)
        text = [line for line in pathlib.Path(self.text).read_text().split("\n") if line]
        self.assertEqual(found["train_text"], "".join(text))
        self.assertEqual(found["train_ids"].count(1), len(text))
        self.assertNotIn("validation_ids", found)

        other = self.write("other.txt", "a second file\r\n")
        files = self.prepare("files.h5", self.text, other, "--model", self.file,
                             "--validation-fraction", "0.1")
        found = self.read(files)
        whole = found["train_ids"] + found["validation_ids"]
        self.assertEqual(found["train_text"] + found["validation_text"],
                         "\n".join(self.paragraphs) + "a second file\r\n")
        self.assertEqual(whole.count(1), 2)
        self.assertEqual(len(found["validation_ids"]), int(len(whole) * 0.1))

    def test_documents_longer_than_a_chunk(self):
        text = "".join(self.paragraphs) * 60 + "x" * 150000
        self.assertGreater(len(text), 4 << 16)
        long = self.prepare("long.h5", self.write("long.txt", text), "--model", self.file,
                            "--validation-fraction", "0")
        found = self.read(long)
        self.assertEqual(found["train_text"], text)
        self.assertEqual(found["train_ids"].count(1), 1)

    def test_long_lines_train_the_vocabulary_too(self):
        text = "".join(self.paragraphs).replace("\n", " ")
        self.assertGreater(len(text.encode()), 4192)  # SentencePiece's own limit
        file = self.prepare("line.h5", self.write("line.txt", text), "--vocab", "300")
        self.assertEqual(self.read(file)["vocab"], [300])

    def test_a_model_that_puts_a_blank_in_front(self):
        prefix = str(self.folder / "plain")
        sentencepiece.SentencePieceTrainer.train(input=self.text, model_prefix=prefix,
                                                 vocab_size=150, model_type="bpe",
                                                 hard_vocab_limit=False, minloglevel=2)
        model = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
        short = self.write("short.txt", "the king saw all")
        found = self.read(self.prepare("short.h5", short, "--model", prefix + ".model",
                                       "--validation-fraction", "0"))
        self.assertEqual(found["train_ids"], model.encode("the king saw all") + [model.eos_id()])
        self.assertEqual(found["train_text"], "the king saw all")

    def test_ids_are_as_wide_as_the_vocabulary_needs(self):
        sys.path.insert(0, str(ROOT / "tools"))
        import prepare_text
        self.assertEqual([prepare_text.width_of(vocab) for vocab in (256, 257, 65536, 65537)],
                         ["u1", "u2", "u2", "u4"])

    def test_errors_name_what_is_wrong(self):
        for arguments, message in [
                ([self.write("latin.txt", b"caf\xe9\n")], "is not UTF-8 text"),
                ([str(self.folder / "nowhere.txt")], "there is no file"),
                ([self.text, "--vocab", "100000"], "cannot train a vocabulary of 100000"),
                ([self.text, "--model", self.text], "is no SentencePiece model"),
                ([self.text, "--model", "nowhere.model"], "cannot read the model nowhere.model"),
                ([self.text, "--validation-fraction", "0.9"], "between 0 and 0.5")]:
            ran = self.run_tool("bad.h5", *arguments)
            self.assertEqual(ran.returncode, 2, ran.stderr)
            self.assertIn(message, ran.stderr)
            self.assertNotIn("Traceback", ran.stderr)
            self.assertEqual(list(self.folder.glob("bad.h5*")), [])

    def test_what_cannot_be_read_in_place_is_refused(self):
        ids = numpy.arange(100, dtype="<u2")
        for name, message, data, options in [
                ("chunked", "chunked", ids, {"chunks": (10,)}),
                ("packed", "chunked", ids, {"compression": "gzip"}),
                ("big", "big-endian", ids.astype(">u2"), {}),
                ("square", "not a list", ids.reshape(10, 10), {}),
                ("floats", "not a list", ids.astype("<f4"), {}),
                ("beyond", "id 99 of token 99", ids, {})]:
            path = str(self.folder / f"{name}.h5")
            with h5py.File(path, "w") as file:
                file.create_dataset("tokens", data=data, **options)
            self.assertIn(message, self.refusal(path, "99"), name)


if __name__ == "__main__":
    unittest.main()
