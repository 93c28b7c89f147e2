#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds what the search finds against what a search for least memory finds (the objective of
Mesh-TensorFlow's auto_mtf), by measured step times.

    tools/check_search.py --tessera build/release/tessera [--ranks 2] [--rounds 3] [DECK …]

The machine is calibrated first. Each deck is searched with plan.objective = time and = memory, then
both answers run in turns. Prints predicted and measured seconds (the
median over rounds of a run's median step) and the ratio of the two searches."""
import argparse
import json
import statistics
import sys

from check_prediction import ROOT, calibrated, measured_seconds, run

DECKS = ["input/bench/lm_small.ini", "input/bench/lm_gpt2.ini", "input/bench/lm_long.ini",
         "input/bench/resnet50_224.ini"]


def settings_of(best):
    settings = [f"--mesh.shape={best['mesh_shape']}", f"--layout.rules={best['layout']}",
                f"--optim.shard={best['shard']}", f"--layout.store={best['store']}",
                f"--train.micro_batches={best['micro_batches']}"]
    return settings + [f"--train.recompute={best['recompute']}"]


def search(args, deck, machine, objective):
    out = run([args.tessera, "plan", deck, "--search", "--json", f"--plan.ranks={args.ranks}",
               f"--plan.machine={machine}", f"--plan.objective={objective}"])
    return json.loads(out)["best"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", default="build/release/tessera")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("decks", nargs="*", default=DECKS)
    args = parser.parse_args()
    args.tessera = str((ROOT / args.tessera).resolve())
    slower = 0
    with calibrated(args.tessera, args.ranks) as machine:
        for deck in args.decks:
            found = [search(args, deck, machine, what) for what in ("time", "memory")]
            seen = [[], []]
            for _ in range(args.rounds):
                for best, times in zip(found, seen):
                    times.append(measured_seconds(args.tessera, deck, args.ranks,
                                                  settings_of(best), args.steps))
            medians = [statistics.median(times) for times in seen]
            for what, best, measured in zip(("time", "memory"), found, medians):
                print(f"{deck:30} least {what:6}  predicted {best['predicted_step_s']:8.4f} s  "
                      f"measured {measured:8.4f} s  {best['bytes_per_rank']['total'] / 2**20:8.1f} "
                      f"MiB  {' '.join(settings_of(best))}", flush=True)
            print(f"{deck:30} the search for time is {medians[1] / medians[0]:.2f} times as fast",
                  flush=True)
            slower += medians[0] > 1.02 * medians[1]
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
