#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draw the pictures of a file of samples, or of an array file, as a grid in a PNG.

usage: picture_grid.py FILE.h5|FOLDER OUTPUT.png [--columns N] [--rows N] [--scale N]

Of a folder (run.dir/samples) the newest file is taken. Pictures are /train/image [count, height,
width, channels], 0 to 1, of one or three channels; those of class k stand in column k if there are
labels.
"""

import argparse
import pathlib
import struct
import zlib

import h5py
import numpy as np


def newest(path):
    """The file itself, or a folder's last one by its step."""
    path = pathlib.Path(path)
    if not path.is_dir():
        return path
    files = sorted(path.glob("step_*.h5"))
    if not files:
        raise SystemExit(f"{path}: there is no step_*.h5")
    return files[-1]


def read_pictures(path, part="train"):
    """Pictures [count, height, width, channels] from 0 to 1, and labels or None."""
    with h5py.File(path) as file:
        if f"{part}/image" not in file:
            raise SystemExit(f"{path} has no /{part}/image")
        image = file[f"{part}/image"]
        pictures = (image[()].astype(np.float32) - image.attrs.get("offset", 0)) \
            * image.attrs.get("factor", 1)
        labels = file[f"{part}/label"][()] if f"{part}/label" in file else None
    if pictures.ndim == 3:
        pictures = pictures[..., None]
    if pictures.ndim != 4 or pictures.shape[3] not in (1, 3):
        raise SystemExit(f"{path}: /{part}/image {image.shape} holds no grey or coloured pictures")
    return pictures, labels


def make_grid(pictures, labels, rows, columns):
    """One picture [height, width, channels] of rows x columns, with lines between them."""
    if labels is None:
        chosen = list(range(min(rows * columns, len(pictures))))
    else:
        of_class = [np.flatnonzero(labels == k) for k in range(columns)]
        chosen = [of_class[k][r] if r < len(of_class[k]) else None
                  for r in range(rows) for k in range(columns)]
    _, height, width, channels = pictures.shape
    grid = np.ones((rows * (height + 1) + 1, columns * (width + 1) + 1, channels), np.float32)
    for place, i in enumerate(chosen):
        if i is not None:
            y, x = place // columns * (height + 1) + 1, place % columns * (width + 1) + 1
            grid[y:y + height, x:x + width] = pictures[i]
    return grid


def png(picture):
    """The bytes of a PNG of a picture [height, width, 1 or 3] from 0 to 1."""
    pixels = np.clip(np.rint(picture * 255), 0, 255).astype(np.uint8)
    height, width, channels = pixels.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with "no filter"
    lines[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">2I5B", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)) + chunk(b"IEND", b""))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("output")
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--scale", type=int, default=2, help="pixels for each pixel (2)")
    options = parser.parse_args()
    path = newest(options.file)
    pictures, labels = read_pictures(path)
    grid = make_grid(pictures, labels, options.rows, options.columns)
    grid = grid.repeat(options.scale, 0).repeat(options.scale, 1)
    pathlib.Path(options.output).write_bytes(png(grid))
    print(f"{options.output}: {options.rows} x {options.columns} pictures of {path}")


if __name__ == "__main__":
    main()
