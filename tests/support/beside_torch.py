# SPDX-License-Identifier: BSD-3-Clause
"""What the programs share that set a benchmark's times beside PyTorch's, in turns."""

import subprocess
import time


def best_of_three(function):
    """CPU milliseconds, of all threads."""
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        function()
        best = min(best, time.process_time() - begin)
    return 1e3 * best


class Bench:
    """A benchmark that reads a line for each case and answers with its milliseconds."""

    def __init__(self, command):
        self.process = subprocess.Popen([command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.process.stdin.close()
        self.process.wait()

    def times(self, case):
        self.process.stdin.write(" ".join(map(str, case)) + "\n")
        self.process.stdin.flush()
        return [float(part) for part in self.process.stdout.readline().split()]

    def best(self, case, torch_times, rounds):
        """Least times over the rounds, which take turns: the benchmark's, torch_times(*case)."""
        turns = [(self.times(case), torch_times(*case)) for _ in range(rounds)]
        return [[min(times) for times in zip(*side)] for side in zip(*turns)]
