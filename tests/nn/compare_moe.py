# SPDX-License-Identifier: BSD-3-Clause
"""A mixture of experts beside the same layer written in PyTorch, one thread each, shape by shape in
turns.

usage: compare_moe.py BENCH_MOE [--rounds N]

BENCH_MOE is the executable of bench_moe.cpp. Needs torch. PyTorch's layer gives tokens their places
by cumulative sums, brings them there by index_copy, multiplies all experts by one bmm and gathers
the results: no one-hot products. CPU milliseconds in f32, each the best of all rounds; ratios are
PyTorch's time over Tessera's, so above 1 Tessera is faster.
"""

import argparse
import math
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from beside_torch import Bench, best_of_three

# batch, length, width, hidden, experts, choices
SHAPES = [(8, 256, 512, 2048, 8, 1), (8, 256, 512, 2048, 8, 2), (8, 256, 256, 512, 32, 1),
          (2, 1024, 768, 3072, 4, 2)]
CAPACITY = 1.25


class Layer(torch.nn.Module):
    def __init__(self, width, hidden, experts, choices):
        super().__init__()
        self.gate = torch.nn.Parameter(torch.randn(width, experts) / math.sqrt(width))
        self.up = torch.nn.Parameter(torch.randn(experts, width, hidden) / math.sqrt(width))
        self.down = torch.nn.Parameter(torch.randn(experts, hidden, width) / math.sqrt(hidden))
        self.choices = choices

    def forward(self, x):
        batch, length, width = x.shape
        experts = self.gate.shape[1]
        places = max(1, math.ceil(self.choices * CAPACITY * length / experts))
        share = torch.softmax(x @ self.gate, dim=-1)
        top, chosen = share.topk(self.choices, dim=-1)
        if self.choices > 1:
            top = top / top.sum(-1, keepdim=True)
        # First choices come before second ones.
        order = chosen.transpose(1, 2).reshape(batch, -1)
        taken = torch.nn.functional.one_hot(order, experts).cumsum(1)
        place = taken.gather(2, order[..., None])[..., 0] - 1
        kept = place < places
        row = torch.arange(batch)[:, None]
        slot = ((order * batch + row) * places + place.clamp(max=places - 1))[kept]
        token = (row * length + torch.arange(length).repeat(self.choices))[kept]
        flat = x.reshape(-1, width)
        held = flat.new_zeros(experts * batch * places, width).index_copy(0, slot, flat[token])
        hidden = torch.relu(torch.bmm(held.view(experts, -1, width), self.up))
        out = torch.bmm(hidden, self.down).view(-1, width)[slot]
        weight = top.transpose(1, 2).reshape(batch, -1)[kept]
        value = torch.zeros_like(flat).index_add(0, token, out * weight[:, None])
        first = torch.nn.functional.one_hot(chosen[..., 0], experts).float().mean((0, 1))
        balance = 0.01 * experts * (first * share.mean((0, 1))).sum()
        return value.view_as(x), balance


def torch_times(batch, length, width, hidden, experts, choices):
    layer = Layer(width, hidden, experts, choices)
    x = torch.randn(batch, length, width, requires_grad=True)
    slopes = torch.randn(batch, length, width)

    def loss():
        value, balance = layer(x)
        return (value * slopes).sum() + balance

    def forward():
        with torch.no_grad():
            loss()

    return [best_of_three(forward),
            best_of_three(lambda: torch.autograd.grad(loss(), [x, *layer.parameters()]))]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("batch length width hidden experts choices |  ms: forward  with backward |  PyTorch's |"
          " ratio: forward  with backward")
    with Bench(options.bench) as own:
        for shape in SHAPES:
            best = own.best(shape, torch_times, options.rounds)
            ratios = [b / a for a, b in zip(*best)]
            print(*shape, "|", *(f"{t:8.1f}" for t in best[0]), "|",
                  *(f"{t:8.1f}" for t in best[1]), "|", *(f"{r:8.2f}" for r in ratios), flush=True)


if __name__ == "__main__":
    main()
