#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write pictures and their labels into an array file that a deck names in data.path.

usage: prepare_images.py FOLDER OUTPUT [--validation SHARE] [--shorter N] [--shard N]
       prepare_images.py IMAGES LABELS OUTPUT [--validation N]
       prepare_images.py --digits OUTPUT [--samples N] [--validation N] [--seed N]

FOLDER has a folder of pictures for each class, or pictures named as ImageNet's: n01440764_….JPEG.
JPEGs are kept as they are (data.source = images decodes them), other pictures become JPEGs; those
that can't be read are left out and named. More than --shard pictures go to several files,
OUTPUT-train-00000.h5, …, and those held back, every k-th, to OUTPUT-validation-00000.h5, …

IMAGES and LABELS are files in IDX format (the MNIST database's), plain or gzip; the last N samples
become the validation part. --digits draws pictures of seven-segment digits instead, shifted and
noisy, for trials without any data. Both are array files (data.source = arrays). --pad N puts the
pictures into the middle of N x N black pixels.
"""

import argparse
import gzip
import io
import multiprocessing
import os
import pathlib
import re
import struct
import sys

import h5py
import numpy as np

IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path):
    """The array in a file in IDX format."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with (gzip.open if packed else open)(path, "rb") as file:
        head = file.read(4)
        if len(head) != 4 or head[:2] != b"\0\0" or head[2] not in IDX_TYPES:
            raise SystemExit(f"{path}: not a file in IDX format")
        shape = struct.unpack(f">{head[3]}I", file.read(4 * head[3]))
        content = np.frombuffer(file.read(), IDX_TYPES[head[2]])
    if content.size != np.prod(shape):
        raise SystemExit(f"{path}: {content.size} numbers for the shape {shape}")
    return content.reshape(shape)


# Segments of the digits 0 to 9: top, upper left, upper right, middle, lower left, lower right, bottom.
SEGMENTS = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010",
            "1111111", "1111011"]


def draw_digit(digit, side):
    """A picture of one digit in strokes of full brightness, values 0 to 1."""
    image = np.zeros((side, side))
    top, middle, bottom = side // 6, side // 2, side - side // 6 - 1
    left, right, thick = side // 3, side - side // 3 - 1, max(1, side // 12)
    boxes = [(top, top, left, right), (top, middle, left, left), (top, middle, right, right),
             (middle, middle, left, right), (middle, bottom, left, left),
             (middle, bottom, right, right), (bottom, bottom, left, right)]
    for on, (y0, y1, x0, x1) in zip(SEGMENTS[digit], boxes):
        if on == "1":
            image[y0:y1 + thick, x0:x1 + thick] = 1
    return image


def draw_digits(count, seed, side=28):
    """`count` pictures u1 [count, side, side] of digits, moved by up to two pixels, and the digits."""
    random = np.random.default_rng(seed)
    plain = [draw_digit(digit, side) for digit in range(10)]
    labels = random.integers(0, 10, count)
    images = np.empty((count, side, side), np.uint8)
    for i, label in enumerate(labels):
        moved = np.roll(plain[label], random.integers(-2, 3, 2), (0, 1))
        noisy = 200 * moved * random.uniform(0.6, 1) + 40 * random.random((side, side))
        images[i] = noisy.astype(np.uint8)
    return images, labels


def pad(images, side):
    """The pictures [count, height, width] in the middle of `side` rows and columns."""
    height, width = images.shape[1:3]
    if side < max(height, width):
        raise SystemExit(f"--pad {side}: the pictures have {height} x {width} pixels")
    top, left = (side - height) // 2, (side - width) // 2
    return np.pad(images, ((0, 0), (top, side - height - top), (left, side - width - left)))


def write(path, images, labels, validation):
    """Pixels go from 0 to 1 when they are read; the last `validation` samples are held back."""
    border = len(images) - validation
    with h5py.File(path, "w") as file:
        for part, cut in (("train", slice(0, border)), ("validation", slice(border, None))):
            if len(images[cut]) == 0:
                continue
            image = file.create_dataset(f"{part}/image", data=images[cut].astype("<u1"))
            image.attrs["factor"] = 1 / 255
            file.create_dataset(f"{part}/label", data=labels[cut].astype("<i4"))
    print(f"{path}: {border} training and {validation} validation pictures of "
          f"{' x '.join(map(str, images.shape[1:]))}, labels {labels.min()} to {labels.max()}")


PICTURES = {".jpeg", ".jpg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
WORD_NET = re.compile(r"(n\d{8})_(.*)\.[^.]+$")


def find_pictures(folder):
    """Paths and class numbers of all pictures, and the classes' names, classes sorted by name."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PICTURES)
    if not files:
        raise SystemExit(f"{folder}: there are no pictures ({', '.join(sorted(PICTURES))})")

    def class_of(path):
        inside = path.relative_to(folder).parts
        named = WORD_NET.match(path.name)
        if len(inside) == 1 and not named:
            raise SystemExit(f"{path} is in no class's folder, and its name is not like "
                             "n01440764_tench.JPEG")
        return inside[0] if len(inside) > 1 else named[1]

    classes = [class_of(path) for path in files]
    names = {name: i for i, name in enumerate(sorted(set(classes)))}
    return files, [names[name] for name in classes], list(names)


def encode(task):
    """A picture as the bytes of a JPEG, or why it is none."""
    from PIL import Image
    path, shorter, quality = task
    try:
        content = pathlib.Path(path).read_bytes()
        with Image.open(io.BytesIO(content)) as image:
            scale = shorter / min(image.size) if shorter else 1
            if scale >= 1 and image.format == "JPEG":
                image.load()
                return path, content, None
            image = image.convert("L" if image.mode in ("1", "L") else "RGB")
            if scale < 1:
                size = [max(1, round(side * scale)) for side in image.size]
                image = image.resize(size, Image.Resampling.LANCZOS)
            packed = io.BytesIO()
            image.save(packed, "JPEG", quality=quality)
            return path, packed.getvalue(), None
    except Exception as error:  # PIL has many, as DecompressionBombError
        return path, None, str(error)


def add_part(file, part, pictures):
    """Pictures (JPEG, label) one after the other, and where each ends."""
    blobs = [blob for blob, _ in pictures]
    file[f"{part}/image/bytes"] = np.frombuffer(b"".join(blobs), np.uint8)
    file[f"{part}/image/ends"] = np.cumsum([len(blob) for blob in blobs], dtype="<i8")
    file[f"{part}/label"] = np.array([label for _, label in pictures], "<i4")


def write_file(path, names, **parts):
    """One file with its parts; never half of it under its name."""
    written = f"{path}.part"
    with h5py.File(written, "w") as file:
        for part, pictures in parts.items():
            if pictures:
                add_part(file, part, pictures)
        texts = [name.encode() for name in names]
        file["classes/bytes"] = np.frombuffer(b"".join(texts), np.uint8)
        file["classes/ends"] = np.cumsum([len(text) for text in texts], dtype="<i8")
        file.attrs["program"] = "tools/prepare_images.py"
    os.replace(written, path)


class Shards:
    """Files of one part, each written as soon as it is full."""

    def __init__(self, stem, part, names, size):
        self.stem, self.part, self.names, self.size = stem, part, names, size
        self.pictures, self.files, self.count = [], 0, 0

    def add(self, picture):
        self.pictures.append(picture)
        self.count += 1
        if len(self.pictures) > self.size:
            self.flush()

    def flush(self):
        """Writes what a file holds; one picture more may wait, which begins the next."""
        if self.pictures:
            write_file(f"{self.stem}-{self.part}-{self.files:05d}.h5", self.names,
                       train=self.pictures[:self.size])
            self.files += 1
            self.pictures = self.pictures[self.size:]


def prepare_folder(folder, output, options):
    files, labels, names = find_pictures(pathlib.Path(folder))
    if options.samples:
        files, labels = files[:options.samples], labels[:options.samples]
        names = names[:max(labels) + 1]
    share = options.validation / len(files) if options.validation >= 1 else options.validation
    stem = output.removesuffix(".h5")
    train = Shards(stem, "train", names, options.shard)
    validation = Shards(stem, "validation", names, options.shard)
    is_one = len(files) <= options.shard
    left_out = 0
    with multiprocessing.Pool(options.jobs) as pool:
        tasks = ((str(path), options.shorter, options.quality) for path in files)
        for i, (path, blob, reason) in enumerate(pool.imap(encode, tasks, chunksize=16)):
            if blob is None:
                left_out += 1
                print(f"left out: {path}: {reason}", file=sys.stderr)
                continue
            held_back = int((i + 1) * share) > int(i * share)
            (validation if held_back else train).add((blob, labels[i]))
    if train.count == 0:
        raise SystemExit(f"{folder}: no picture is left to train on")
    summary = (f"{train.count} training and {validation.count} validation pictures of {len(names)} "
               f"classes, {left_out} left out")
    if is_one:
        write_file(output, names, train=train.pictures, validation=validation.pictures)
        print(f"{output}: {summary}")
        print(f"deck: [data] source = images, path = {output}; [model] classes = {len(names)}")
        return
    train.flush()
    validation.flush()
    print(f"{stem}-*.h5: {summary}")
    held = f", validation = {stem}-validation-*.h5" if validation.count else ""
    print(f"deck: [data] source = images, path = {stem}-train-*.h5{held}; "
          f"[model] classes = {len(names)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="FOLDER | IMAGES LABELS")
    parser.add_argument("output")
    parser.add_argument("--digits", action="store_true", help="draw pictures instead of reading them")
    parser.add_argument("--samples", type=int, default=0,
                        help="pictures to draw (4000), or to take of a folder (all)")
    parser.add_argument("--validation", type=float, default=0,
                        help="samples to hold back, or below 1 the share of them")
    parser.add_argument("--seed", type=int, default=0, help="of the drawn pictures")
    parser.add_argument("--shorter", type=int, default=0,
                        help="shrink pictures whose shorter side has more pixels; 0: none")
    parser.add_argument("--quality", type=int, default=92, help="of JPEGs that are made (92)")
    parser.add_argument("--shard", type=int, default=4096, help="pictures of a file (4096)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    parser.add_argument("--pad", type=int, default=0,
                        help="rows and columns into whose middle digits and IDX pictures are put")
    options = parser.parse_args()
    if options.digits == bool(options.paths) or len(options.paths) > 2:
        parser.error("give a FOLDER, IMAGES and LABELS, or --digits")
    if options.shard < 1 or not options.validation >= 0:
        parser.error("--shard must be at least 1, --validation at least 0")
    if len(options.paths) == 1:
        return prepare_folder(options.paths[0], options.output, options)
    if options.digits:
        images, labels = draw_digits(options.samples or 4000, options.seed)
    else:
        images, labels = map(read_idx, options.paths)
        if images.ndim < 3 or labels.ndim != 1 or len(images) != len(labels):
            raise SystemExit(f"pictures {images.shape} and labels {labels.shape} do not fit together")
    if options.pad:
        images = pad(images, options.pad)
    held = options.validation if options.validation >= 1 else options.validation * len(images)
    if not 0 <= int(held) < len(images):
        raise SystemExit(f"--validation {options.validation:g}: there are {len(images)} pictures")
    write(options.output, images, labels, int(held))


if __name__ == "__main__":
    main()
