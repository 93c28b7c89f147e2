# SPDX-License-Identifier: BSD-3-Clause
"""The deck of handwritten digits with digits that tools/prepare_images.py draws: the net learns
them, and its curve is the same with the picture whole and cut over rows and columns of ranks."""

import gzip
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"SKIPPED: {error}; tests/requirements.txt names what this test needs")
    sys.exit(77)

TESSERA = os.environ["TESSERA"]
MPIEXEC = os.environ.get("MPIEXEC", "mpiexec")
ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
PREPARE = [sys.executable, ROOT / "tools" / "prepare_images.py"]
SMALL = ["--model.filters=6", "--model.hidden=32", "--data.batch=50", "--train.steps=80",
         "--optim.lr=6e-3", "--optim.warmup=5", "--eval.every=80",
         "--train.dtype=f64"]


def check_idx(place):
    """Files in IDX format, plain and packed, come out as they went in."""
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (7, 5, 4)).astype(np.uint8)
    labels = random.integers(0, 10, 7).astype(np.uint8)
    (place / "images").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 7, 5, 4) + images.tobytes())
    with gzip.open(place / "labels.gz", "wb") as file:
        file.write(struct.pack(">4BI", 0, 0, 8, 1, 7) + labels.tobytes())
    subprocess.run([*PREPARE, "images", "labels.gz", "out.h5", "--validation", "2"], cwd=place,
                   check=True, stdout=subprocess.PIPE)
    with h5py.File(place / "out.h5") as file:
        for part, cut in (("train", slice(0, 5)), ("validation", slice(5, 7))):
            assert (file[f"{part}/image"][()] == images[cut]).all()
            assert (file[f"{part}/label"][()] == labels[cut]).all()
            assert abs(file[f"{part}/image"].attrs["factor"] * 255 - 1) < 1e-12
    short = subprocess.run([*PREPARE, "labels.gz", "labels.gz", "no.h5"], cwd=place,
                           capture_output=True, text=True)
    assert short.returncode != 0 and "do not fit together" in short.stderr, short.stderr


def train(place, mesh, ranks):
    """Losses of all steps, then the validation's loss and accuracy."""
    name = mesh.replace(":", "").replace(",", "_")
    command = [MPIEXEC, "-n", str(ranks), TESSERA, "train", ROOT / "input" / "mnist.ini",
               f"--run.dir={place / name}", "--data.path=digits.h5", f"--mesh.shape={mesh}", *SMALL]
    subprocess.run(command, cwd=place, check=True, stdout=subprocess.PIPE)
    lines = [json.loads(line) for line in (place / name / "metrics.jsonl").read_text().splitlines()]
    curve = [line["loss"] for line in lines if "loss" in line]
    last = [line for line in lines if "validation_accuracy" in line][-1]
    return curve + [last["validation_loss"], last["validation_accuracy"]]


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_digits_") as folder:
        place = pathlib.Path(folder)
        check_idx(place)
        subprocess.run([*PREPARE, "--digits", "digits.h5", "--samples", "900", "--validation",
                        "200"], cwd=place, check=True, stdout=subprocess.PIPE)
        whole = train(place, "rows:1,cols:1", 1)
        assert whole[-1] > 0.9, f"accuracy {whole[-1]} after {len(whole) - 2} steps"
        for mesh, ranks in [("rows:2,cols:1", 2), ("rows:2,cols:2", 4)]:
            found = train(place, mesh, ranks)
            assert len(found) == len(whole)
            worst = max(abs(a - b) / (abs(b) + 1e-3) for a, b in zip(found, whole))
            assert worst < 1e-8, f"{mesh}: curves differ by {worst}"
            print(f"{mesh}: accuracy {found[-1]:.3f}, curve within {worst:.1e}")


if __name__ == "__main__":
    main()
