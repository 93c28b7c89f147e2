# SPDX-License-Identifier: BSD-3-Clause
"""Write pictures and their labels into an array file that a deck names in data.path.

usage: prepare_images.py IMAGES LABELS OUTPUT [--validation N]
       prepare_images.py --digits OUTPUT [--samples N] [--validation N] [--seed N]

IMAGES and LABELS are files in IDX format (the MNIST database's), plain or gzip. The last N samples
become the validation part. --digits draws pictures of seven-segment digits instead, shifted and
noisy, for trials without any data.
"""

import argparse
import gzip
import struct

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


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="IMAGES LABELS")
    parser.add_argument("output")
    parser.add_argument("--digits", action="store_true", help="draw pictures instead of reading them")
    parser.add_argument("--samples", type=int, default=4000, help="pictures to draw (4000)")
    parser.add_argument("--validation", type=int, default=0, help="samples at the end to hold back")
    parser.add_argument("--seed", type=int, default=0, help="of the drawn pictures")
    options = parser.parse_args()
    if options.digits == bool(options.paths) or len(options.paths) not in (0, 2):
        parser.error("give IMAGES and LABELS, or --digits")
    if options.digits:
        images, labels = draw_digits(options.samples, options.seed)
    else:
        images, labels = map(read_idx, options.paths)
        if images.ndim < 3 or labels.ndim != 1 or len(images) != len(labels):
            raise SystemExit(f"pictures {images.shape} and labels {labels.shape} do not fit together")
    if not 0 <= options.validation < len(images):
        raise SystemExit(f"--validation {options.validation}: there are {len(images)} pictures")
    write(options.output, images, labels, options.validation)


if __name__ == "__main__":
    main()
