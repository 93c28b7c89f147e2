# SPDX-License-Identifier: BSD-3-Clause
"""The run of the README's first page: a loss at once, then a model that has learnt, a checkpoint and text."""

import os
import pathlib
import re
import time

import runs


def test_quickstart():
    deck = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"]) / "input" / "quickstart.ini"
    with runs.Place() as place:
        begin = time.time()
        process = place.start("train", "--run.dir=run", ranks=2, file=str(deck))
        out, first = "", None
        for line in process.stdout:
            out += line
            if first is None and line.startswith("step 1/"):
                first = time.time() - begin
        runs.check(process.wait() == 0, out, process.stderr.read())
        seconds = time.time() - begin
        print(f"first loss after {first:.1f} s, done after {seconds:.0f} s", flush=True)
        runs.check(first < 5 and seconds < 180, "first loss after", first, "s, done after", seconds)
        entropy = float(re.search(r"single tokens' frequencies: ([\d.]+) nats", out)[1])
        validation = [m["validation_loss"] for m in place.metrics("run") if "validation_loss" in m]
        runs.check(validation[-1] <= entropy - 0.7, validation, entropy)
        runs.check(place.checkpoints("run")[-1] == "step_00000500.h5", place.checkpoints("run"))
        text = out.split("\nsample:\n")[1]
        runs.check(text.startswith("// SPDX-License-Identifier") and len(text) > 300, out)


if __name__ == "__main__":
    runs.main(dict(globals()))
