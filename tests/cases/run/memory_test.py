# SPDX-License-Identifier: BSD-3-Clause
"""A rank's resident memory stays within what was planned plus a stated allowance."""

import json
import pathlib
import time

import runs

# Beyond the plan a rank holds read-ahead batches, metrics, MPI's and HDF5's buffers.
ALLOWANCE = 48 << 20
LONG = ["--model.max_length=8192", "--data.length=8192", "--data.batch=2", "--data.source=random",
        "--data.random_tokens=200000", "--train.dtype=f32", "--train.steps=2", "--model.dropout=0"]


def peaks(place, folder, *settings, ranks):
    """Largest VmHWM of the ranks of a run, in bytes."""
    process = place.start("train", f"--run.dir={folder}", *settings, ranks=ranks)
    peak = 0
    while process.poll() is None:
        for pid in runs.children_of(process.pid):
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                peak = max(peak, 1024 * int(status.split("VmHWM:")[1].split()[0]))
            except (OSError, IndexError):
                continue
        time.sleep(0.02)
    out, err = process.communicate()
    runs.check(process.returncode == 0, out, err)
    return peak


def planned(place, *settings):
    result = place.run("plan", "--json", *settings, expect=0)
    return json.loads(result.out)["bytes_per_rank"]["total"]


def check_growth(place, name, *settings, ranks):
    base = ["--mesh.shape=batch:1,model:1" if ranks == 1 else "--mesh.shape=batch:2,model:1"]
    small = ["--train.steps=3", *base]
    at_start = peaks(place, name + "_small", *small, ranks=ranks) - planned(place, *small)
    peak = peaks(place, name, *settings, *base, ranks=ranks)
    plan = planned(place, *settings, *base)
    print(f"{name}: peak {peak >> 20} MiB, at start {at_start >> 20} MiB, planned {plan >> 20} MiB")
    runs.check(plan > 100 << 20, "the plan is too small to see", plan)
    # Two heads of two texts: attention must not hold all places by all places.
    runs.check(plan < 2 * 2 * 8192 * 8192 * 4 // ranks, "there is room for an l x l matrix", plan)
    runs.check(peak - at_start < plan + ALLOWANCE, name, "grows by", peak - at_start, "planned", plan)


def test_long_sequences():
    with runs.Place() as place:
        wide = ["--model.d_model=64", "--model.d_ff=1024", "--model.heads=2", "--model.d_kv=8", "--model.layers=1"]
        check_growth(place, "one", *LONG, *wide, ranks=1)
        check_growth(place, "two", *LONG, *wide, ranks=2)


if __name__ == "__main__":
    runs.main(dict(globals()))
