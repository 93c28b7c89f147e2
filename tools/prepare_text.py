#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turns text into a token file for data.source = tokens.

    tools/prepare_text.py books.h5 books/*.txt --vocab 16384
    tools/prepare_text.py more.h5 more.txt --model books.h5

Trains a SentencePiece model on the text (byte fallback, white space kept as it is, so that the text
can be had back exactly) or takes a given one, encodes all documents, puts the end-of-document id
behind each, sets every k-th document aside for validation, and writes an HDF5 file:

    /tokens/train, /tokens/validation   ids, contiguous, u8, u16 or u32 as the vocabulary needs;
                                        attributes max_id, digest (BLAKE2b, 128 bits)
    /pieces/bytes, /pieces/ends         the bytes that each id prints, one after the other, and
                                        where each id's end
    /pieces/scores                      log probabilities of a unigram model's pieces
    /sentencepiece_model                the model itself, for --model
    attributes                          format, vocab, end_of_document, leading_blank, provenance

Nothing is held in memory but one batch of text and, while a model is trained, --training-lines.
"""

import argparse
import hashlib
import io
import json
import os
import pathlib
import sys
import tempfile

try:
    import h5py
    import numpy
    import sentencepiece
except ImportError as missing:
    sys.exit(f"prepare_text.py needs the Python packages h5py, numpy and sentencepiece: {missing}")

FORMAT = "tessera tokens 1"
CHUNK = 1 << 16  # characters of a document that are encoded at once
BATCH = 1 << 22  # characters that are encoded before ids are written
COPY = 1 << 24  # ids that are copied at once


class Wrong(Exception):
    """Something that the user can mend."""


def lines_of(path):
    """Lines of a UTF-8 file, line ends included. A carriage return alone ends none."""
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise Wrong(f"{path} is not UTF-8 text ({error.reason}); convert it, e.g. with iconv"
                    ) from None
    except OSError as error:
        raise Wrong(f"cannot read {path}: {error.strerror}") from None


def documents_of(path, separator):
    """Documents of a file, each as an iterable of pieces of text."""
    if separator == "file":
        yield lines_of(path)
    elif separator == "line":
        for line in lines_of(path):
            if line.strip():
                yield [line.rstrip("\r\n")]
    else:
        paragraph = []
        for line in lines_of(path):
            if line.strip():
                paragraph.append(line)
            elif paragraph:
                yield paragraph
                paragraph = []
        if paragraph:
            yield paragraph


def chunks_of(pieces):
    """Joins short pieces and cuts long ones, so that memory stays bounded; cuts between lines."""
    held = ""
    for piece in pieces:
        if held and len(held) + len(piece) > CHUNK:
            yield held
            held = ""
        held += piece
        while len(held) > CHUNK:
            yield held[:CHUNK]
            held = held[CHUNK:]
    if held:
        yield held


def train_model(paths, options):
    """A SentencePiece model of the text, as bytes."""
    out = io.BytesIO()
    # SentencePiece silently passes over lines that are longer than its limit.
    lines = (piece for path in paths for line in lines_of(path)
             for piece in chunks_of([line.rstrip("\r\n")]))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for line in lines if line.strip()), model_writer=out,
        model_type=options.kind, vocab_size=options.vocab, byte_fallback=True,
        normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
        character_coverage=options.coverage, input_sentence_size=options.training_lines,
        max_sentence_length=4 * CHUNK, shuffle_input_sentence=True, unk_id=0, eos_id=1, bos_id=-1,
        pad_id=-1, minloglevel=2)
    return out.getvalue()


def load_model(path):
    """The model of a SentencePiece file or of a token file."""
    try:
        if h5py.is_hdf5(path):
            with h5py.File(path, "r") as file:
                if "sentencepiece_model" not in file:
                    raise Wrong(f"{path} holds no SentencePiece model")
                return bytes(file["sentencepiece_model"][...])
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise Wrong(f"cannot read the model {path}: {error}") from None


def printed(model, identity):
    """The bytes that an id prints."""
    if model.is_control(identity) or model.is_unused(identity):
        return b""
    if model.is_byte(identity):
        return bytes([int(model.id_to_piece(identity)[3:5], 16)])
    if model.is_unknown(identity):
        return model.decode([identity]).encode()
    return model.id_to_piece(identity).replace("\u2581", " ").encode()


def width_of(vocab):
    """The narrowest type of ids."""
    return "u1" if vocab <= 1 << 8 else "u2" if vocab <= 1 << 16 else "u4"


class Ids:
    """Ids on their way into a dataset: a raw file beside the output."""

    def __init__(self, folder, width):
        self.width = numpy.dtype(width)
        self.file = tempfile.TemporaryFile(dir=folder)
        self.count = 0

    def append(self, ids):
        numpy.asarray(ids, self.width).tofile(self.file)
        self.count += len(ids)

    def slices(self, first=0, end=None):
        """Ids [first, end) in pieces."""
        end = self.count if end is None else end
        self.file.flush()
        self.file.seek(first * self.width.itemsize)
        while first < end:
            piece = numpy.fromfile(self.file, self.width, min(COPY, end - first))
            first += len(piece)
            yield piece


def encode(paths, model, options, train, validation):
    """Encodes all documents; every k-th goes to validation. Gives documents and characters."""
    step = round(1 / options.validation_fraction) if options.validation_fraction else 0
    separator = model.eos_id()
    documents = characters = 0
    held = 0
    batch = []  # (text, where to, whether its document ends behind it)

    def flush():
        for ids, (_, into, ends) in zip(model.encode([text for text, _, _ in batch]), batch):
            into.append(ids + [separator] if ends else ids)
        batch.clear()

    for path in paths:
        for document in documents_of(path, options.separator):
            into = validation if step and documents % step == step - 1 else train
            for chunk in chunks_of(document):
                batch.append((chunk, into, False))
                characters += len(chunk)
                held += len(chunk)
                if held >= BATCH:
                    flush()
                    held = 0
            batch.append(("", into, True))
            documents += 1
    flush()
    return documents, characters


def write_ids(file, name, width, count, pieces):
    """A contiguous dataset with its largest id and digest."""
    dataset = file.create_dataset(name, (count,), numpy.dtype(width).newbyteorder("<"))
    digest, largest, at = hashlib.blake2b(digest_size=16), 0, 0
    for piece in pieces:
        dataset[at:at + len(piece)] = piece
        digest.update(piece.tobytes())
        largest = max(largest, int(piece.max()))
        at += len(piece)
    dataset.attrs["max_id"] = largest
    dataset.attrs["digest"] = digest.hexdigest()


def scores_of(model):
    """Log probabilities of a unigram model's pieces; none for other models, whose scores are whole
    numbers. Bytes stand for characters without a piece, which SentencePiece takes only if it
    must: 10 below the least likely piece."""
    size = model.get_piece_size()
    scores = numpy.array([model.get_score(identity) for identity in range(size)], numpy.float32)
    known = numpy.array([not (model.is_byte(i) or model.is_control(i) or model.is_unknown(i))
                         for i in range(size)])
    if not known.any() or (scores[known] == numpy.round(scores[known])).all():
        return None
    scores[~known] = scores[known].min() - 10
    return scores


def write_pieces(file, model):
    texts = [printed(model, identity) for identity in range(model.get_piece_size())]
    file["pieces/bytes"] = numpy.frombuffer(b"".join(texts), numpy.uint8)
    file["pieces/ends"] = numpy.cumsum([len(text) for text in texts], dtype=numpy.int64)
    scores = scores_of(model)
    if scores is not None:
        file["pieces/scores"] = scores


def provenance(options, blob, documents, characters):
    return json.dumps({
        "program": "tools/prepare_text.py", "sentencepiece": sentencepiece.__version__,
        "inputs": [{"path": str(path), "bytes": os.path.getsize(path)} for path in options.input],
        "separator": options.separator, "model": str(options.model or f"trained, {options.kind}"),
        "model_digest": hashlib.blake2b(blob, digest_size=16).hexdigest(),
        "documents": documents, "characters": characters})


def prepare(options):
    for path in options.input:
        if not os.path.isfile(path):
            raise Wrong(f"there is no file {path}")
    if options.model:
        blob = load_model(options.model)
    else:
        try:
            blob = train_model(options.input, options)
        except RuntimeError as error:
            raise Wrong(f"SentencePiece cannot train a vocabulary of {options.vocab} on this text: "
                        f"{error}") from None
    try:
        model = sentencepiece.SentencePieceProcessor(model_proto=blob)
    except RuntimeError as error:
        raise Wrong(f"{options.model} is no SentencePiece model: {error}") from None
    vocab = model.get_piece_size()
    if model.eos_id() < 0:
        raise Wrong(f"the model {options.model} has no end-of-sentence id to end documents with; "
                    "train one with eos_id set")
    width = width_of(vocab)

    folder = os.path.dirname(os.path.abspath(options.output))
    train, validation = Ids(folder, width), Ids(folder, width)
    documents, characters = encode(options.input, model, options, train, validation)
    cut = train.count
    if options.validation_fraction and not validation.count:
        # Too few documents to set one aside: the end of the last.
        cut -= int(train.count * options.validation_fraction)
    if cut < 2:
        raise Wrong("the text gives no tokens to train on")

    part = options.output + ".part"
    try:
        with h5py.File(part, "w") as file:
            write_ids(file, "tokens/train", width, cut, train.slices(0, cut))
            held_back = validation.count + train.count - cut
            rest = validation.slices() if validation.count else train.slices(cut)
            if held_back:
                write_ids(file, "tokens/validation", width, held_back, rest)
            write_pieces(file, model)
            file["sentencepiece_model"] = numpy.frombuffer(blob, numpy.uint8)
            first = model.encode("a", out_type=str)[0]
            file.attrs.update({
                "format": FORMAT, "vocab": vocab, "end_of_document": model.eos_id(),
                "leading_blank": int(first.startswith("\u2581")),
                "provenance": provenance(options, blob, documents, characters)})
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, options.output)
    finally:
        if os.path.exists(part):
            os.remove(part)
    print(f"{options.output}: {documents} documents, {cut} training and {held_back} validation "
          f"tokens of {numpy.dtype(width).itemsize} bytes, vocabulary of {vocab}, "
          f"{characters / (cut + held_back):.2f} characters a token")
    print(f"deck: [data] source = tokens, path = {options.output}; [model] vocab = {vocab}")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", help="token file to write (HDF5)")
    parser.add_argument("input", nargs="+", help="UTF-8 text files, taken in this order")
    parser.add_argument("--model", help="a SentencePiece model, or a token file that holds one")
    parser.add_argument("--vocab", type=int, default=8192,
                        help="size of the vocabulary to train (%(default)s)")
    parser.add_argument("--kind", choices=["unigram", "bpe"], default="unigram",
                        help="of model (%(default)s)")
    parser.add_argument("--coverage", type=float, default=0.9995,
                        help="part of all characters that get pieces; others become bytes")
    parser.add_argument("--training-lines", type=int, default=1000000,
                        help="lines drawn to train the model (%(default)s)")
    parser.add_argument("--separator", choices=["file", "blank-line", "line"], default="file",
                        help="what ends a document (%(default)s)")
    parser.add_argument("--validation-fraction", type=float, default=0.05,
                        help="part of the documents set aside (%(default)s); 0: none")
    options = parser.parse_args(arguments)
    if not 0 <= options.validation_fraction <= 0.5:
        parser.error("--validation-fraction must lie between 0 and 0.5")
    return options


if __name__ == "__main__":
    try:
        prepare(parse(sys.argv[1:]))
    except Wrong as error:
        print(f"prepare_text.py: {error}", file=sys.stderr)
        sys.exit(2)
