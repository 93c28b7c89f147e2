# SPDX-License-Identifier: BSD-3-Clause
"""tools/picture_grid.py and tools/gan_score.py: a grid's pixels, padded digits, and scores and
distances whose values are known."""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"SKIPPED: {error}; tests/requirements.txt names what this test needs")
    sys.exit(77)

TOOLS = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"]) / "tools"
sys.path.insert(0, str(TOOLS))
import gan_score  # noqa: E402


def run(place, *command):
    subprocess.run([sys.executable, *command], cwd=place, check=True, stdout=subprocess.PIPE)


def pixels_of(png):
    """The grey pixels of a PNG whose lines have no filter."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        content = png[at + 8:at + 8 + size]
        assert struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + content)
        chunks[kind] = content
        at += 12 + size
    width, height, depth, colour = struct.unpack(">2I2B", chunks[b"IHDR"][:10])
    assert (depth, colour) == (8, 0)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width)
    assert (lines[:, 0] == 0).all()
    return lines[:, 1:]


def check_grid(place):
    pictures = np.arange(6, dtype=np.uint8).reshape(6, 1, 1) * np.ones((1, 3, 2), np.uint8)
    (place / "samples").mkdir()
    for step in (1, 2):
        with h5py.File(place / "samples" / f"step_{step:08d}.h5", "w") as file:
            file["train/image"] = pictures * step
            file["train/image"].attrs["factor"] = 1 / 255
            file["train/label"] = np.array([1, 0, 1, 2, 2, 0], np.int32)
    run(place, TOOLS / "picture_grid.py", "samples", "grid.png", "--rows", "2", "--columns", "3",
        "--scale", "1")
    grid = pixels_of((place / "grid.png").read_bytes())
    # Column k has the class k: pictures 1 and 5, 0 and 2, 3 and 4 of the newest file.
    expected = np.full((9, 10), 255)
    for row, line in enumerate([[1, 0, 3], [5, 2, 4]]):
        for column, picture in enumerate(line):
            expected[1 + 4 * row:4 + 4 * row, 1 + 3 * column:3 + 3 * column] = 2 * picture
    assert (grid == expected).all(), grid


def check_padding(place):
    for name, pad in (("small.h5", []), ("large.h5", ["--pad", "32"])):
        run(place, TOOLS / "prepare_images.py", "--digits", name, "--samples", "5", *pad)
    with h5py.File(place / "small.h5") as small, h5py.File(place / "large.h5") as large:
        padded = large["train/image"][()]
        assert padded.shape == (5, 32, 32)
        assert (padded[:, 2:30, 2:30] == small["train/image"][()]).all()
        assert padded.sum() == padded[:, 2:30, 2:30].sum()


def check_scores():
    assert abs(gan_score.classifier_score(np.full((7, 10), 0.1)) - 1) < 1e-12
    assert abs(gan_score.classifier_score(np.eye(10)) - 10) < 1e-9
    random = np.random.default_rng(1)
    a = random.standard_normal((400, 3))
    a = (a - a.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(a, rowvar=False))).T
    # Normal distributions without correlations: (m1 - m2)^2 + (s1 - s2)^2 of each coordinate.
    b = a * [1, 2, 0.5] + [0, 0, 3]
    assert abs(gan_score.frechet_distance(a, b) - (1 + 0.25 + 9)) < 1e-9
    assert abs(gan_score.frechet_distance(b, b)) < 1e-9


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_pictures_") as folder:
        check_grid(pathlib.Path(folder))
        check_padding(pathlib.Path(folder))
    check_scores()


if __name__ == "__main__":
    main()
