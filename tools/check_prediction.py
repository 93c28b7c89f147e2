#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds predicted step times against measured ones.

    tools/check_prediction.py --tessera build/release/tessera [--ranks 1 2] [--rounds 5]

Each round calibrates the machine and then runs every deck and layout for a few steps, so that a
machine that is busy or changes its clock tells on both alike; calibration never sees these decks.
Prints predicted and measured seconds (the median over rounds of a run's median step), their
relative difference, and for each number of ranks Kendall's tau of the two orders."""
import argparse
import contextlib
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SMALL = "input/bench/lm_small.ini"
GPT2 = "input/bench/lm_gpt2.ini"
QUICK = "input/quickstart.ini"
RESNET = "input/bench/resnet50_224.ini"
LAYOUT = "layout.rules=batch:batch, vocab:model, d_ff:model, heads:model"

# ranks, deck, settings
CASES = [
    (1, SMALL, ["mesh.shape=batch:1,model:1"]),
    (1, QUICK, ["mesh.shape=batch:1"]),
    (1, GPT2, ["mesh.shape=batch:1,model:1"]),
    (1, SMALL, ["mesh.shape=batch:1,model:1", "train.dtype=bf16"]),
    (1, RESNET, ["mesh.shape=batch:1", "data.batch=8"]),
    (2, SMALL, ["mesh.shape=batch:2,model:1"]),
    (2, SMALL, ["mesh.shape=batch:1,model:2"]),
    (2, QUICK, ["mesh.shape=batch:2"]),
    (2, GPT2, ["mesh.shape=batch:2,model:1"]),
    (2, GPT2, ["mesh.shape=batch:1,model:2"]),
    (2, SMALL, ["mesh.shape=batch:2,model:1", "optim.shard=batch", "train.micro_batches=2"]),
    (2, RESNET, ["mesh.shape=batch:2", "data.batch=8"]),
    (2, RESNET, ["mesh.shape=rows:2", "layout.rules=height:rows", "data.batch=8"]),
    (4, SMALL, ["mesh.shape=batch:4,model:1"]),
    (4, SMALL, ["mesh.shape=batch:2,model:2"]),
    (4, SMALL, ["mesh.shape=batch:1,model:4"]),
    (4, QUICK, ["mesh.shape=batch:4,model:1", LAYOUT]),
    (4, QUICK, ["mesh.shape=batch:1,model:4", LAYOUT]),
    (4, GPT2, ["mesh.shape=batch:2,model:2"]),
    (4, GPT2, ["mesh.shape=batch:1,model:4"]),
]


def run(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}{result.stdout}")
    return result.stdout


@contextlib.contextmanager
def calibrated(tessera, ranks):
    """The machine's file, measured now with so many ranks."""
    with tempfile.TemporaryDirectory() as folder:
        machine = pathlib.Path(folder) / "machine.ini"
        run(["mpiexec", "-n", str(ranks), tessera, "calibrate", machine])
        yield machine


def predicted_seconds(tessera, deck, ranks, settings, machine):
    out = run([tessera, "plan", deck, "--json", f"--plan.ranks={ranks}",
               f"--plan.machine={machine}", *settings])
    return json.loads(out)["predicted_step_s"]


def measured_seconds(tessera, deck, ranks, settings, steps):
    with tempfile.TemporaryDirectory() as folder:
        run(["mpiexec", "-n", str(ranks), tessera, "train", deck, f"--run.dir={folder}",
             "--run.overwrite=true", f"--train.steps={steps + 1}", "--eval.every=0",
             "--checkpoint.every=0", "--sample.length=0", *settings], timeout=600)
        lines = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step_s"] for line in lines if "step_s" in line]
    return statistics.median(steps[1:])


def tau(pairs):
    """Kendall's rank correlation of (predicted, measured)."""
    agree = [(a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in itertools.combinations(pairs, 2)]
    return 2 * statistics.mean(agree) - 1 if agree else 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tessera", default="build/release/tessera")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--limit", type=float, default=0.15,
                        help="largest relative difference on 1 and 2 ranks")
    args = parser.parse_args()
    args.tessera = str((ROOT / args.tessera).resolve())
    bad = 0
    for ranks in args.ranks:
        cases = [case for case in CASES if case[0] == ranks]
        times = [([], []) for _ in cases]
        for _ in range(args.rounds):
            with calibrated(args.tessera, ranks) as machine:
                for (_, deck, settings), (said, seen) in zip(cases, times):
                    settings = ["--" + setting for setting in settings]
                    said.append(predicted_seconds(args.tessera, deck, ranks, settings, machine))
                    seen.append(measured_seconds(args.tessera, deck, ranks, settings,
                                                 args.steps))
        pairs = []
        for (_, deck, settings), (said, seen) in zip(cases, times):
            said, seen = statistics.median(said), statistics.median(seen)
            pairs.append((said, seen))
            error = said / seen - 1
            bad += ranks <= 2 and abs(error) > args.limit
            print(f"{ranks} rank(s)  {deck:28} {' '.join(settings):60.60} "
                  f"predicted {said:8.4f} s  measured {seen:8.4f} s  {100 * error:+6.1f} %",
                  flush=True)
        print(f"{ranks} rank(s)  Kendall's tau {tau(pairs):.2f}", flush=True)
        bad += ranks > 2 and tau(pairs) < 0.6
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
