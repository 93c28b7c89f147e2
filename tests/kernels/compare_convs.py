# SPDX-License-Identifier: BSD-3-Clause
"""The convolutions of ResNet-50 beside PyTorch's, one thread each, shape by shape in turns.

usage: compare_convs.py BENCH_CONVS [--batch N] [--rounds N]

BENCH_CONVS is the executable of bench_convs.cpp. Needs torch. CPU milliseconds of forward, input
gradient and filter gradient in f32, channels last, each the best of all rounds; ratios are
PyTorch's time over Tessera's, so above 1 Tessera is faster.
"""

import argparse
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from beside_torch import Bench, best_of_three

# side of the picture, channels in and out, kernel, stride; how often ResNet-50 has it.
SHAPES = [
    (224, 3, 64, 7, 2, 1), (56, 64, 64, 1, 1, 1), (56, 64, 64, 3, 1, 3), (56, 64, 256, 1, 1, 4),
    (56, 256, 64, 1, 1, 2), (56, 256, 128, 1, 1, 1), (56, 128, 128, 3, 2, 1),
    (28, 128, 512, 1, 1, 4), (56, 256, 512, 1, 2, 1), (28, 512, 128, 1, 1, 3),
    (28, 128, 128, 3, 1, 3), (28, 512, 256, 1, 1, 1), (28, 256, 256, 3, 2, 1),
    (14, 256, 1024, 1, 1, 6), (28, 512, 1024, 1, 2, 1), (14, 1024, 256, 1, 1, 5),
    (14, 256, 256, 3, 1, 5), (14, 1024, 512, 1, 1, 1), (14, 512, 512, 3, 2, 1),
    (7, 512, 2048, 1, 1, 3), (14, 1024, 2048, 1, 2, 1), (7, 2048, 512, 1, 1, 2),
    (7, 512, 512, 3, 1, 2),
]


def torch_times(batch, side, inputs, outputs, kernel, stride):
    layout = {"memory_format": torch.channels_last}
    x = torch.randn(batch, inputs, side, side).contiguous(**layout)
    w = torch.randn(outputs, inputs, kernel, kernel).contiguous(**layout)
    pad = kernel // 2
    y = torch.nn.functional.conv2d(x, w, stride=stride, padding=pad)
    dy = torch.randn_like(y).contiguous(**layout)

    def backward(mask):
        return torch.ops.aten.convolution_backward(dy, x, w, None, [stride] * 2, [pad] * 2, [1, 1],
                                                   False, [0, 0], 1, mask)

    return [best_of_three(lambda: torch.nn.functional.conv2d(x, w, stride=stride, padding=pad)),
            best_of_three(lambda: backward([True, False, False])),
            best_of_three(lambda: backward([False, True, False]))]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    total = [[0.0] * 3, [0.0] * 3]
    print("size   in  out k s |     ms: forward    input   filter | ratio: forward  input filter")
    with Bench(options.bench) as own:
        for *size, count in SHAPES:
            best = own.best((options.batch, *size), torch_times, options.rounds)
            for sums, times in zip(total, best):
                for i in range(3):
                    sums[i] += count * times[i]
            side, inputs, outputs, kernel, stride = size
            print(f"{side:4} {inputs:4} {outputs:4} {kernel} {stride} |         "
                  + " ".join(f"{t:8.1f}" for t in best[0]) + " |         "
                  + " ".join(f"{b / a:6.2f}" for a, b in zip(*best)), flush=True)
    print("all of ResNet-50    |         " + " ".join(f"{t:8.1f}" for t in total[0]) + " |         "
          + " ".join(f"{b / a:6.2f}" for a, b in zip(*total))
          + f"   together {sum(total[1]) / sum(total[0]):.2f}")


if __name__ == "__main__":
    main()
