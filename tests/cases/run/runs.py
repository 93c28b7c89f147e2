# SPDX-License-Identifier: BSD-3-Clause
"""Runs the executable for tests: small decks, metrics, signals."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

TESSERA = os.environ["TESSERA"]
MPIEXEC = os.environ.get("MPIEXEC", "mpiexec")
TIME_KEYS = {"step_s", "tokens_per_s", "eval_s"}

DECK = """\
[model]
layers = 2
d_model = 20
d_ff = 36
heads = 3
d_kv = 8
max_length = 12
dropout = 0.1
[data]
path = text.txt
batch = 6
length = 12
validation_fraction = 0.2
[optim]
lr = 0.01
clip_norm = 1
[train]
steps = 12
dtype = f64
[layout]
rules = batch:batch, vocab:model, d_ff:model, heads:model
[run]
log_seconds = 0
"""


class Failed(AssertionError):
    pass


def check(condition, *message):
    if not condition:
        raise Failed(" ".join(str(part) for part in message))


def text_of(size):
    """Deterministic text with some structure."""
    words = "the mesh of ranks cuts a tensor into tiles and sums what is partial".split()
    state, out = 1, []
    while sum(map(len, out)) < size:
        state = (state * 1103515245 + 12345) % 2**31
        out.append(words[state >> 16 & 15 if (state >> 16 & 15) < len(words) else 0] + " ")
    return "".join(out)[:size]


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def __str__(self):
        return f"exit code {self.code} after {self.seconds:.1f} s\n{self.out}\n{self.err}"


class Place:
    """A temporary folder with a deck and a text."""

    def __init__(self, deck=DECK, size=3000):
        self.temporary = tempfile.TemporaryDirectory(prefix="tessera_run_")
        self.path = pathlib.Path(self.temporary.name)
        (self.path / "deck.ini").write_text(deck)
        (self.path / "text.txt").write_text(text_of(size))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def command(self, verb, *settings, ranks=0, file="deck.ini"):
        launcher = [MPIEXEC, "-n", str(ranks)] if ranks else []
        return launcher + [TESSERA, verb, file, *settings]

    def start(self, verb, *settings, ranks=0, file="deck.ini", env=None):
        return subprocess.Popen(
            self.command(verb, *settings, ranks=ranks, file=file), cwd=self.path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})

    def run(self, verb, *settings, ranks=0, file="deck.ini", env=None, expect=None, timeout=120):
        begin = time.time()
        process = self.start(verb, *settings, ranks=ranks, file=file, env=env)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise Failed(f"{' '.join(process.args)} hangs\n{out}\n{err}") from None
        result = Result(process.returncode, out, err, time.time() - begin)
        if expect is not None:
            check(result.code == expect, " ".join(process.args), "expected", expect, "got", result)
        return result

    def metrics(self, folder):
        """Lines of metrics.jsonl without what depends on time."""
        lines = []
        for line in (self.path / folder / "metrics.jsonl").read_text().splitlines():
            lines.append({k: v for k, v in json.loads(line).items() if k not in TIME_KEYS})
        return lines

    def losses(self, folder):
        return [line["loss"] for line in self.metrics(folder) if "loss" in line]

    def checkpoints(self, folder):
        return sorted(p.name for p in (self.path / folder / "checkpoints").glob("step_*.h5"))


def children_of(pid):
    """Processes of the executable below a launcher, oldest first."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
            found.append((int(stat.parent.name), int(fields[1])))
        except (OSError, IndexError):
            continue
    below, ranks = {pid}, []
    for _ in range(4):
        below |= {child for child, parent in found if parent in below}
    for child in sorted(below):
        try:
            if os.readlink(f"/proc/{child}/exe") == os.path.realpath(TESSERA):
                ranks.append(child)
        except OSError:
            continue
    return ranks


def wait_for(condition, what, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise Failed(f"waited {seconds} s in vain for {what}")


def wait_for_step(place, folder, step):
    """Waits until metrics.jsonl holds a step."""
    file = place.path / folder / "metrics.jsonl"
    pattern = re.compile(rf'"step": {step},')
    wait_for(lambda: file.exists() and pattern.search(file.read_text()), f"step {step}")


def close(a, b, tolerance):
    return len(a) == len(b) and all(
        abs(x - y) <= tolerance * max(1, abs(x), abs(y)) for x, y in zip(a, b))


def main(tests):
    """Runs functions named test_*; all, or those that the command line names."""
    wanted = sys.argv[1:]
    failed = []
    for name, test in tests.items():
        if not name.startswith("test_") or (wanted and name not in wanted):
            continue
        begin = time.time()
        try:
            test()
            print(f"passed  {name}  {time.time() - begin:.1f} s", flush=True)
        except Failed as error:
            failed.append(name)
            lines = str(error).splitlines()
            shown = lines if len(lines) < 60 else lines[:25] + ["..."] + lines[-25:]
            print(f"FAILED  {name}\n" + "\n".join(shown), flush=True)
    sys.exit(1 if failed else 0)
