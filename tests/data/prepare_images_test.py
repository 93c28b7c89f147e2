# SPDX-License-Identifier: BSD-3-Clause
"""Pictures through tools/prepare_images.py and data.source = images, beside PIL: sizes, colour
spaces, pictures that are broken, files of several shards.

usage: prepare_images_test.py DATA_PRINT_IMAGES
"""

import io
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
    from PIL import Image
except ImportError as error:
    print(f"SKIPPED: {error}; tests/requirements.txt names what this test needs")
    sys.exit(77)

PRINT = sys.argv[1]
PREPARE = [sys.executable,
           pathlib.Path(os.environ["TESSERA_SOURCE_DIR"]) / "tools" / "prepare_images.py"]


def scene(height, width, seed):
    """A smooth picture in colours: JPEG keeps it well."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / 40
    waves = [np.sin(a * x + b * y + c) for a, b, c in random.uniform(0.2, 2, (3, 3))]
    return Image.fromarray((127 + 110 * np.stack(waves, -1)).astype(np.uint8))


def prepare(place, *arguments):
    return subprocess.run([*PREPARE, *map(str, arguments)], cwd=place, check=True,
                          capture_output=True, text=True)


def read(*arguments):
    """Pixels in [0, 1] and label of one sample; or the message of the error."""
    run = subprocess.run([PRINT, *map(str, arguments)], capture_output=True)
    if run.returncode:
        return run.stderr.decode()
    values = np.frombuffer(run.stdout, np.float32)
    shape = [int(size) for size in arguments[1:4]]
    return values[:-1].reshape(shape), int(values[-1])


def middle(image, height, width, shorter):
    """PIL's picture of the middle, decoded at the same size."""
    scale = min(image.size) / shorter
    size = (width * scale, height * scale)
    left, top = (image.width - size[0]) / 2, (image.height - size[1]) / 2
    mode = "L" if image.mode == "L" else "RGB"
    shrunk = image.convert(mode).resize((width, height), Image.Resampling.BILINEAR,
                                        (left, top, left + size[0], top + size[1]))
    return np.asarray(shrunk, np.float32).reshape(height, width, -1) / 255


def check_against_pil(place):
    """Every coding that libjpeg reads, one class each; none shrinks while it is decoded."""
    pictures = {"a_colour": (scene(90, 70, 1), {}), "b_grey": (scene(70, 90, 2).convert("L"), {}),
                "c_inks": (scene(80, 80, 3).convert("CMYK"), {}),
                "d_progressive": (scene(64, 100, 4), {"progressive": True}),
                "e_full": (scene(61, 67, 5), {"subsampling": 0})}
    for name, (image, options) in pictures.items():
        (place / "codings" / name).mkdir(parents=True)
        image.save(place / "codings" / name / "x.jpg", quality=95, **options)
    prepare(place, "codings", "codings.h5")
    with h5py.File(place / "codings.h5") as file:
        blobs = file["train/image/bytes"][()].tobytes()
        ends = file["train/image/ends"][()]
    assert blobs[:ends[0]] == (place / "codings" / "a_colour" / "x.jpg").read_bytes()
    # The print program validates on the last three of five, in order.
    for index in range(3):
        name = list(pictures)[2 + index]
        found, label = read("validation", 56, 48, 3, 0, index, place / "codings.h5")
        assert label == 2 + index, label
        wanted = middle(Image.open(place / "codings" / name / "x.jpg"), 56, 48, 64)
        assert abs(found - wanted).max() < 2.5 / 255, abs(found - wanted).max() * 255
    for name in pictures:
        single = place / f"only_{name}"
        (single / name).mkdir(parents=True)
        for copy in "xy":
            os.link(place / "codings" / name / "x.jpg", single / name / f"{copy}.jpg")
        prepare(place, single, f"{name}.h5")
        image = Image.open(place / "codings" / name / "x.jpg")
        found, _ = read("validation", 40, 44, 3, 0, 0, place / f"{name}.h5")
        wanted = middle(image, 40, 44, 51)
        assert abs(found - wanted).max() < 3 / 255, (name, abs(found - wanted).max() * 255)
        if image.mode == "CMYK":
            continue
        grey, _ = read("validation", 40, 44, 1, 0, 0, place / f"{name}.h5")
        wanted = middle(image.convert("L"), 40, 44, 51)
        assert abs(grey - wanted).max() < 3 / 255, (name, abs(grey - wanted).max() * 255)


def check_shrunk(place):
    """A picture that is decoded at an eighth looks like one that is decoded whole."""
    (place / "large" / "one").mkdir(parents=True)
    for copy in "xy":
        scene(900, 800, 6).save(place / "large" / "one" / f"{copy}.jpg", quality=95)
    prepare(place, "large", "large.h5")
    found, _ = read("validation", 64, 64, 3, 0, 0, place / "large.h5")
    wanted = middle(Image.open(place / "large" / "one" / "x.jpg"), 64, 64, 74)
    assert abs(found - wanted).mean() < 1 / 255, abs(found - wanted).mean() * 255


def check_training_cuts(place):
    """Cuts differ between epochs and come again; validation never changes."""
    arguments = ("training", 32, 32, 3)
    first, _ = read(*arguments, 0, 0, place / "large.h5")
    again, _ = read(*arguments, 0, 0, place / "large.h5")
    other, _ = read(*arguments, 1, 0, place / "large.h5")
    assert (first == again).all() and abs(first - other).max() > 0.05
    one, _ = read("validation", 32, 32, 3, 0, 0, place / "large.h5")
    two, _ = read("validation", 32, 32, 3, 5, 0, place / "large.h5")
    assert (one == two).all()


def check_names_and_shards(place):
    """Pictures named as ImageNet's, in several files, some of them no JPEGs, one broken."""
    folder = place / "named"
    folder.mkdir()
    for i in range(23):
        kind = "png" if i % 5 == 0 else "JPEG"
        scene(30 + i, 40, i).save(folder / f"n{10000000 + i // 2:08d}_thing_{i}.{kind}", quality=90)
    (folder / "n20000000_broken.JPEG").write_bytes(b"\xff\xd8 no picture")
    head = struct.pack(">4s2I5B", b"IHDR", 30000, 30000, 8, 0, 0, 0, 0)  # PIL refuses that many
    (folder / "n20000000_huge.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head
        + struct.pack(">2I4s", zlib.crc32(head), 1, b"IDAT"))
    told = prepare(place, "named", "named.h5", "--shard", 8, "--validation", 0.25, "--shorter", 36)
    assert "n20000000_broken.JPEG" in told.stderr, told.stderr
    assert "18 training and 5 validation pictures of 13 classes, 2 left out" in told.stdout, told
    files = sorted(path.name for path in place.glob("named-*.h5"))
    assert files == ["named-train-00000.h5", "named-train-00001.h5", "named-train-00002.h5",
                     "named-validation-00000.h5"], files
    labels = []
    for name in files:
        with h5py.File(place / name) as file:
            ends = file["train/image/ends"][()]
            blobs = file["train/image/bytes"][()].tobytes()
            labels += file["train/label"][()].tolist()
            for begin, end in zip([0, *ends[:-1]], ends):
                image = Image.open(io.BytesIO(blobs[begin:end]))
                assert image.format == "JPEG" and min(image.size) <= 36
            assert len(file["classes/ends"]) == 13
    assert sorted(labels) == sorted(i // 2 for i in range(23))


def check_broken(place):
    """A JPEG that ends early, and one that is none, are named with file and number."""
    with h5py.File(place / "large.h5") as file:
        blob = file["train/image/bytes"][()].tobytes()[:file["train/image/ends"][0]]
    for name, blobs in [("early", [blob[:len(blob) // 3]] * 2), ("none", [b"not a picture"] * 2)]:
        with h5py.File(place / f"{name}.h5", "w") as file:
            file["train/image/bytes"] = np.frombuffer(b"".join(blobs), np.uint8)
            file["train/image/ends"] = np.cumsum([len(b) for b in blobs], dtype="<i8")
            file["train/label"] = np.zeros(2, "<i4")
        told = read("validation", 32, 32, 3, 0, 0, place / f"{name}.h5")
        assert f"{name}.h5, /train/image: picture 1 is no whole JPEG" in told, told
    with h5py.File(place / "arrays.h5", "w") as file:
        file["train/image"] = np.zeros((2, 32, 32, 3), np.uint8)
        file["train/label"] = np.zeros(2, "<i4")
    assert "data.source = arrays" in read("training", 32, 32, 3, 0, 0, place / "arrays.h5")
    assert "channels:1 or 3" in read("training", 32, 32, 2, 0, 0, place / "arrays.h5")


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_images_") as folder:
        place = pathlib.Path(folder)
        (place / "empty").mkdir()
        if "no libjpeg" in read("training", 8, 8, 3, 0, 0, place / "empty"):
            print("SKIPPED: built without libjpeg")
            sys.exit(77)
        check_against_pil(place)
        check_shrunk(place)
        check_training_cuts(place)
        check_names_and_shards(place)
        check_broken(place)


if __name__ == "__main__":
    main()
