# SPDX-License-Identifier: BSD-3-Clause
"""Tokens a second and memory of a language model's training steps beside PyTorch, in turns: f32, Adam.

usage: compare_lm.py TESSERA PEER [--deck FILE] [--mesh SHAPE] [--rounds N] [--steps N] [--scaling]
                     [-- further deck keys]

TESSERA is the executable, PEER a program that trains the same model in PyTorch on as many threads as
there are ranks here: --d-model, --layers, --heads, --d-ff, --vocab, --length, --batch, --threads,
--steps, --compile; it prints a line of JSON with params, step_s and version. Run it with a Python that
has torch. The medians of the steps count, on the other side those of the better of eager and compiled;
memory is the proportional set size (Pss) of all ranks, the median over a run's second half. A ratio above
1: Tessera is faster, or smaller. With --scaling one rank runs beside them, too.
"""

import argparse
import configparser
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

DECK = pathlib.Path(__file__).resolve().parents[2] / "input" / "bench" / "lm_small.ini"


def pss(marks):
    """Bytes of all processes whose command lines hold the marks."""
    total = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
            if all(mark in words for mark in marks) and "-n" not in words:  # not mpiexec
                rollup = (process / "smaps_rollup").read_text()
                total += 1024 * int(rollup.split("\nPss:")[1].split()[0])
        except (OSError, IndexError):
            continue
    return total


def watched(command, marks):
    """What the command printed, and its processes' memory in the second half of its time."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    samples = []
    while process.poll() is None:
        samples.append(pss(marks))
        time.sleep(0.5)
    if process.returncode:
        sys.exit(f"{command} ended with {process.returncode}")
    return process.stdout.read(), statistics.median(samples[len(samples) // 2:])


def tessera(options, ranks, mesh):
    """Seconds of a step, bytes of all ranks."""
    with tempfile.TemporaryDirectory(prefix="tessera_lm_") as folder:
        place = f"--run.dir={folder}/run"
        _, memory = watched(
            ["mpiexec", "-n", str(ranks), options.tessera, "train", options.deck, place,
             f"--mesh.shape={mesh}", f"--train.steps={options.steps + 2}", *options.settings],
            [options.tessera, place])
        lines = (pathlib.Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    seconds = [line["step_s"] for line in map(json.loads, lines) if "step_s" in line]
    return statistics.median(seconds[2:]), memory


def peer(options, model, data, how):
    """Its line of JSON, and bytes of its process."""
    sizes = {"d-model": model["d_model"], "layers": model["layers"], "heads": model["heads"],
             "d-ff": model["d_ff"], "vocab": model["vocab"], "length": data["length"],
             "batch": data["batch"], "threads": options.ranks, "steps": options.steps}
    words = [f"--{name}={value}" for name, value in sizes.items()]
    out, memory = watched([sys.executable, options.peer, *words, *how],
                          [options.peer, words[0], *how])
    return json.loads(out.splitlines()[-1]), memory


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tessera")
    parser.add_argument("peer")
    parser.add_argument("settings", nargs="*", help="further deck keys, after --")
    parser.add_argument("--deck", default=str(DECK))
    parser.add_argument("--mesh", default="batch:2,model:1")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--scaling", action="store_true")
    options = parser.parse_args()
    plan = [options.tessera, "plan", options.deck, f"--mesh.shape={options.mesh}", *options.settings]
    parameters = json.loads(subprocess.check_output([*plan, "--json"]))["parameters"]
    deck = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    deck.read_string(subprocess.check_output([*plan, "--deck"], text=True))
    model, data = deck["model"], deck["data"]
    assert model["bias"] == "true" and model["activation"] == "gelu", dict(model)
    tokens = int(data["batch"]) * int(data["length"])
    ratios = []
    for _ in range(options.rounds):
        ours, our_memory = tessera(options, options.ranks, options.mesh)
        theirs = [peer(options, model, data, how) for how in ([], ["--compile"])]
        for found, _ in theirs:
            assert found["params"] == parameters, f"{found['params']} parameters there, {parameters} here"
        best = min(found["step_s"] for found, _ in theirs)
        memory = min(size for _, size in theirs)
        ratios.append(best / ours)
        print(f"Tessera {tokens / ours:.0f} tokens/s, {our_memory / 2**20:.0f} MiB; PyTorch "
              f"{theirs[0][0]['version']} {tokens / best:.0f} tokens/s, {memory / 2**20:.0f} MiB; ratios "
              f"{ratios[-1]:.3f}, {memory / our_memory:.3f}", flush=True)
        if options.scaling:
            alone, _ = tessera(options, 1, "batch:1,model:1")
            print(f"one rank {tokens / alone:.0f} tokens/s, {options.ranks} ranks {alone / ours:.2f} "
                  "times that", flush=True)
    print(f"median ratio {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
