#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turns two parallel texts into a pairs file for data.source = pairs.

    tools/prepare_pairs.py ende.h5 --source train.en --target train.de --vocab 8192
    tools/prepare_pairs.py test.h5 --source test.en --target test.de --model ende.h5

Line i of the target text is the translation of line i of the source text; pairs with an empty side
are left out. Trains one SentencePiece model on both sides (byte fallback, white space kept as it
is) or takes a given one, encodes both, and writes an HDF5 file:

    /train/source, /train/target             ids of all sequences one after the other, each with the
                                             end-of-sequence id behind it; contiguous, u8, u16 or
                                             u32; attributes max_id, digest (BLAKE2b, 128 bits)
    /train/source_ends, /train/target_ends   where each sequence ends, i64
    /validation/…                            the same of the last pairs (--validation-fraction), or
                                             of --validation-source and --validation-target
    /pieces/bytes, /pieces/ends              the bytes that each id prints
    /pieces/scores                           log probabilities of a unigram model's pieces
    /sentencepiece_model                     the model itself, for --model
    attributes                               format, vocab, leading_blank, end_of_sequence = 1,
                                             provenance

Id 0 pads, and begins what a decoder reads. Nothing but the ids' ends and one batch of text is held
in memory.
"""

import argparse
import hashlib
import io
import json
import os
import sys

try:
    import h5py
    import numpy
    import sentencepiece
except ImportError as missing:
    sys.exit(f"prepare_pairs.py needs the Python packages h5py, numpy and sentencepiece: {missing}")

from prepare_text import (CHUNK, Ids, Wrong, lines_of, load_model, width_of, write_ids,
                          write_pieces)

FORMAT = "tessera pairs 1"
END = 1
BATCH = 4096  # pairs that are encoded at once


def pairs_of(source, target):
    """The lines of two files side by side, without line ends; empty sides are left out."""
    sources, targets = lines_of(source), lines_of(target)
    line = 0
    while True:
        one, two = next(sources, None), next(targets, None)
        if (one is None) != (two is None):
            raise Wrong(f"{source} and {target} differ in length: one ends after line {line}")
        if one is None:
            return
        line += 1
        one, two = one.strip(), two.strip()
        if one and two:
            yield one, two


def train_model(source, target, options):
    out = io.BytesIO()
    lines = (line for pair in pairs_of(source, target) for line in pair)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines, model_writer=out, model_type=options.kind,
            vocab_size=options.vocab, byte_fallback=True, normalization_rule_name="identity",
            remove_extra_whitespaces=False, max_sentence_length=4 * CHUNK,
            character_coverage=options.coverage, input_sentence_size=options.training_lines,
            shuffle_input_sentence=True, pad_id=0, eos_id=END, unk_id=2, bos_id=-1, minloglevel=2)
    except RuntimeError as error:
        raise Wrong(f"SentencePiece cannot train a vocabulary of {options.vocab} on this text: "
                    f"{error}") from None
    return out.getvalue()


class Side:
    """Sequences of one side on their way into the file."""

    def __init__(self, folder, width):
        self.ids = Ids(folder, width)
        self.ends = []

    def append(self, sequences):
        for ids in sequences:
            self.ids.append(ids + [END])
            self.ends.append(self.ids.count)

    def write(self, file, group, name, width, first, last):
        """Writes sequences [first, last)."""
        begin = self.ends[first - 1] if first else 0
        end = self.ends[last - 1]
        write_ids(file, f"{group}/{name}", width, end - begin, self.ids.slices(begin, end))
        ends = numpy.asarray(self.ends[first:last], numpy.int64) - begin
        file[f"{group}/{name}_ends"] = ends


class Pairs:
    def __init__(self, source, target, model, folder, width):
        self.sides = [Side(folder, width), Side(folder, width)]
        batch = []

        def flush():
            for side, texts in zip(self.sides, zip(*batch)):
                side.append(model.encode(list(texts)))
            batch.clear()

        for pair in pairs_of(source, target):
            batch.append(pair)
            if len(batch) == BATCH:
                flush()
        if batch:
            flush()
        if not self.sides[0].ends:
            raise Wrong(f"{source} and {target} hold no pairs")

    def __len__(self):
        return len(self.sides[0].ends)

    def write(self, file, group, width, first, last):
        for name, side in zip(("source", "target"), self.sides):
            side.write(file, group, name, width, first, last)


def check_ids(model, name):
    if model.pad_id() != 0 or model.eos_id() != END:
        raise Wrong(f"the model {name} must have pad_id = 0 and eos_id = {END}, as this program "
                    f"trains it; it has {model.pad_id()} and {model.eos_id()}")


def prepare(options):
    inputs = [options.source, options.target]
    if options.validation_source:
        inputs += [options.validation_source, options.validation_target]
    for path in inputs:
        if not os.path.isfile(path):
            raise Wrong(f"there is no file {path}")
    blob = load_model(options.model) if options.model else train_model(
        options.source, options.target, options)
    try:
        model = sentencepiece.SentencePieceProcessor(model_proto=blob)
    except RuntimeError as error:
        raise Wrong(f"{options.model} is no SentencePiece model: {error}") from None
    check_ids(model, options.model)
    width = width_of(model.get_piece_size())
    folder = os.path.dirname(os.path.abspath(options.output))
    train = Pairs(options.source, options.target, model, folder, width)
    held = None
    border = len(train)
    if options.validation_source:
        held = Pairs(options.validation_source, options.validation_target, model, folder, width)
    else:
        border -= int(len(train) * options.validation_fraction)
    validation = len(held) if held else len(train) - border

    part = options.output + ".part"
    try:
        with h5py.File(part, "w") as file:
            train.write(file, "train", width, 0, border)
            if held:
                held.write(file, "validation", width, 0, len(held))
            elif validation:
                train.write(file, "validation", width, border, len(train))
            write_pieces(file, model)
            file["sentencepiece_model"] = numpy.frombuffer(blob, numpy.uint8)
            first = model.encode("a", out_type=str)[0]
            file.attrs.update({
                "format": FORMAT, "vocab": model.get_piece_size(), "end_of_sequence": END,
                "leading_blank": int(first.startswith("\u2581")),
                "provenance": json.dumps({
                    "program": "tools/prepare_pairs.py",
                    "sentencepiece": sentencepiece.__version__,
                    "inputs": [{"path": path, "bytes": os.path.getsize(path)} for path in inputs],
                    "model": str(options.model or f"trained, {options.kind}"),
                    "model_digest": hashlib.blake2b(blob, digest_size=16).hexdigest(),
                    "pairs": border, "validation_pairs": validation})})
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, options.output)
    finally:
        if os.path.exists(part):
            os.remove(part)
    counts = [side.ids.count / len(train) for side in train.sides]
    print(f"{options.output}: {border} training and {validation} validation pairs, vocabulary of "
          f"{model.get_piece_size()}, on average {counts[0]:.1f} source and {counts[1]:.1f} target "
          "tokens a pair")
    print(f"deck: [data] source = pairs, path = {options.output}; "
          f"[model] vocab = {model.get_piece_size()}")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", help="pairs file to write (HDF5)")
    parser.add_argument("--source", required=True, help="UTF-8 text, a sequence a line")
    parser.add_argument("--target", required=True, help="its translation, line by line")
    parser.add_argument("--validation-source", help="text to validate on")
    parser.add_argument("--validation-target", help="its translation")
    parser.add_argument("--validation-fraction", type=float, default=0.05,
                        help="part of the pairs, at their end, set aside without a validation text "
                        "(%(default)s); 0: none")
    parser.add_argument("--model", help="a SentencePiece model, or a pairs file that holds one")
    parser.add_argument("--vocab", type=int, default=8192,
                        help="size of the vocabulary to train (%(default)s)")
    parser.add_argument("--kind", choices=["unigram", "bpe"], default="unigram",
                        help="of model (%(default)s)")
    parser.add_argument("--coverage", type=float, default=0.9995,
                        help="part of all characters that get pieces; others become bytes")
    parser.add_argument("--training-lines", type=int, default=1000000,
                        help="lines drawn to train the model (%(default)s)")
    options = parser.parse_args(arguments)
    if not 0 <= options.validation_fraction <= 0.5:
        parser.error("--validation-fraction must lie between 0 and 0.5")
    if bool(options.validation_source) != bool(options.validation_target):
        parser.error("--validation-source and --validation-target belong together")
    return options


if __name__ == "__main__":
    try:
        prepare(parse(sys.argv[1:]))
    except Wrong as error:
        print(f"prepare_pairs.py: {error}", file=sys.stderr)
        sys.exit(2)
