# SPDX-License-Identifier: BSD-3-Clause
"""A residual net trained on JPEGs that are cut at random: the same curve with the batch cut over
ranks and with the pictures cut, by one thread that decodes or several, the last batch of an epoch
filled up; a run that is resumed goes on bitwise."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from PIL import Image
except ImportError as error:
    print(f"SKIPPED: {error}; tests/requirements.txt names what this test needs")
    sys.exit(77)

TESSERA = os.environ["TESSERA"]
MPIEXEC = os.environ.get("MPIEXEC", "mpiexec")
PREPARE = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"]) / "tools" / "prepare_images.py"
TIMES = {"step_s", "images_per_s", "eval_s"}
DECK = """
[model]
name = resnet
blocks = 1, 1
filters = 4
height = 18
width = 21
classes = 6
[data]
source = images
path = pictures.h5
batch = 7
[optim]
name = momentum
lr = 0.05
schedule = warmup*step
warmup = 3
step_at = 6
[train]
steps = 8
dtype = f64
[eval]
every = 4
[checkpoint]
every = 4
keep = 0
[layout]
rules = batch:batch, height:rows, width:cols
"""


def make_pictures(place):
    """24 pictures of 6 classes, each class of its own colours; 5 are held back."""
    random = np.random.default_rng(3)
    for i in range(24):
        folder = place / "pictures" / f"class_{i % 6}"
        folder.mkdir(parents=True, exist_ok=True)
        height, width = random.integers(20, 60, 2)
        noise = random.integers(0, 80, (height, width, 3)) + 25 * np.array([i % 6, 5 - i % 6, 3])
        Image.fromarray(noise.astype(np.uint8)).save(folder / f"{i}.jpg", quality=90)
    subprocess.run([sys.executable, PREPARE, "pictures", "pictures.h5", "--validation", "5"],
                   cwd=place, check=True, stdout=subprocess.PIPE)


def train(place, name, ranks, mesh, *settings):
    """All lines of a run's metrics, without times; or the message of its error."""
    run = subprocess.run([MPIEXEC, "-n", str(ranks), TESSERA, "train", "deck.ini",
                          f"--run.dir={name}", f"--mesh.shape={mesh}", *settings],
                         cwd=place, capture_output=True, text=True)
    if run.returncode:
        return run.stderr
    lines = (place / name / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in TIMES}
            for line in lines]


def worst_difference(found, wanted):
    assert [line.keys() for line in found] == [line.keys() for line in wanted]
    return max(abs(a[key] - b[key]) / (1 + abs(b[key]))
               for a, b in zip(found, wanted) for key in b)


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_images_") as folder:
        place = pathlib.Path(folder)
        make_pictures(place)
        (place / "deck.ini").write_text(DECK)
        one = "batch:1,rows:1,cols:1"
        whole = train(place, "whole", 1, one)
        if "no libjpeg" in whole:
            print("SKIPPED: built without libjpeg")
            sys.exit(77)
        assert isinstance(whole, list), whole
        assert [line["images"] for line in whole if "loss" in line][:4] == [7, 14, 19, 26], whole
        assert [line["validation_images"] for line in whole if "validation_top5" in line] == [5, 5]
        for name, ranks, mesh, *settings in [
                ("parted", 2, "batch:2,rows:1,cols:1"), ("split", 2, "batch:1,rows:2,cols:1"),
                ("threads", 1, one, "--data.threads=3", "--data.ahead=1")]:
            found = train(place, name, ranks, mesh, *settings)
            assert isinstance(found, list), found
            worst = worst_difference(found, whole)
            assert worst < 1e-9 if ranks > 1 else worst == 0, f"{name}: {worst}"
            print(f"{name}: within {worst:.1e}")
        train(place, "resumed", 2, "batch:2,rows:1,cols:1", "--train.steps=4",
              "--optim.schedule_steps=8")
        again = train(place, "resumed", 2, "batch:2,rows:1,cols:1", "--train.resume=auto",
                      "--optim.schedule_steps=8")
        through = train(place, "through", 2, "batch:2,rows:1,cols:1", "--optim.schedule_steps=8")
        assert again == through, f"{again}\n{through}"


if __name__ == "__main__":
    main()
