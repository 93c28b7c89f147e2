# SPDX-License-Identifier: BSD-3-Clause
"""Attention beside PyTorch's scaled_dot_product_attention, shape by shape in turns.

usage: compare_attention.py BENCH_ATTENTION [--threads N] [--rounds N]

BENCH_ATTENTION is the executable of bench_attention.cpp, which has one thread, as one rank has.
Needs torch. CPU milliseconds (of all threads) of forward and backward in f32, each the best of all
rounds; ratios are PyTorch's time over Tessera's, so above 1 Tessera is faster.
"""

import argparse
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from beside_torch import Bench, best_of_three

# batch, length, heads, depth, causal
SHAPES = [(1, 1024, 12, 64, 1), (1, 4096, 12, 64, 1), (1, 1024, 12, 64, 0), (1, 4096, 12, 64, 0)]


def torch_times(batch, length, heads, depth, causal):
    q, k, v, dout = (torch.randn(batch, heads, length, depth) for _ in range(4))
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, lse = flash(q, k, v, 0.0, bool(causal))
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return [best_of_three(lambda: flash(q, k, v, 0.0, bool(causal))),
            best_of_three(lambda: backward(dout, q, k, v, out, lse, 0.0, bool(causal)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("batch length heads depth causal |  ms: forward backward | ratio: forward backward together")
    with Bench(options.bench) as own:
        for shape in SHAPES:
            best = own.best(shape, torch_times, options.rounds)
            ratios = [b / a for a, b in zip(*best)] + [sum(best[1]) / sum(best[0])]
            batch, length, heads, depth, causal = shape
            print(f"{batch:5} {length:6} {heads:5} {depth:5} {causal:6} |      "
                  + " ".join(f"{t:8.1f}" for t in best[0]) + " |         "
                  + " ".join(f"{r:8.2f}" for r in ratios), flush=True)


if __name__ == "__main__":
    main()
