# SPDX-License-Identifier: BSD-3-Clause
"""Images a second of ResNet-50's training steps beside PyTorch, in turns: f32, momentum SGD, the same
batch on as many threads there as ranks here, channels last.

usage: compare_resnet.py TESSERA [--batch N] [--ranks N] [--side N] [--rounds N] [--steps N]

TESSERA is the executable. Needs torch. The best step of all rounds counts on either side; a ratio
above 1: Tessera is faster. With --cpu it is CPU seconds of one rank and one thread that count, for
a machine that others use, too.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import tempfile
import time

import torch
from torch import nn

DECK = pathlib.Path(__file__).resolve().parents[2] / "input" / "bench" / "resnet50_224.ini"


class Block(nn.Module):
    def __init__(self, before, filters, stride):
        super().__init__()
        wide = 4 * filters

        def part(inputs, outputs, kernel, step):
            return [nn.Conv2d(inputs, outputs, kernel, step, kernel // 2, bias=False),
                    nn.BatchNorm2d(outputs)]

        self.body = nn.Sequential(*part(before, filters, 1, 1), nn.ReLU(True),
                                  *part(filters, filters, 3, stride), nn.ReLU(True),
                                  *part(filters, wide, 1, 1))
        self.shortcut = (nn.Identity() if before == wide and stride == 1
                         else nn.Sequential(*part(before, wide, 1, stride)))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
              nn.MaxPool2d(3, 2, 1)]
    before = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Block(before, 64 << stage, 2 if stage and not block else 1))
            before = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))


class Torch:
    def __init__(self, options):
        torch.set_num_threads(options.ranks)
        self.net = resnet50().to(memory_format=torch.channels_last).train()
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.01, 0.9)
        shape = options.batch, 3, options.side, options.side
        self.images = torch.randn(shape).to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, 1000, (options.batch,))

    def steps(self, count, clock):
        seconds = []
        for _ in range(count):
            begin = clock()
            self.optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(self.net(self.images), self.labels).backward()
            self.optimizer.step()
            seconds.append(clock() - begin)
        return seconds


def tessera_steps(options, count):
    with tempfile.TemporaryDirectory(prefix="tessera_resnet_") as folder:
        run = pathlib.Path(folder) / "run"
        subprocess.run(["mpiexec", "-n", str(options.ranks), options.tessera, "train", str(DECK),
                        f"--run.dir={run}", f"--train.steps={count}",
                        f"--data.batch={options.batch}", f"--model.height={options.side}",
                        f"--model.width={options.side}", *options.settings],
                       check=True, stdout=subprocess.PIPE)
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return [line["step_s"] for line in lines if "step_s" in line]


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tessera_cpu(options, count):
    """CPU seconds of a step: what `count` more of them take."""
    begin = cpu_of_children()
    tessera_steps(options, 1)
    middle = cpu_of_children()
    tessera_steps(options, 1 + count)
    return [(cpu_of_children() - 2 * middle + begin) / count]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("settings", nargs="*", help="further deck keys, after --")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    if options.cpu:
        options.ranks = 1
    clock = time.process_time if options.cpu else time.monotonic
    peer = Torch(options)
    peer.steps(1, clock)
    ours, theirs = [], []
    for _ in range(options.rounds):
        theirs += peer.steps(options.steps, clock)
        ours += (tessera_cpu if options.cpu else tessera_steps)(options, options.steps)
        print(f"Tessera {options.batch / min(ours):.3f} images/s, PyTorch {torch.__version__} "
              f"{options.batch / min(theirs):.3f} images/s, ratio {min(theirs) / min(ours):.3f}",
              flush=True)


if __name__ == "__main__":
    main()
