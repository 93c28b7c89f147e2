#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws a plan into one picture.

    tessera plan input/lm.ini --json=full > plan.json
    tools/plot_plan.py plan.json                       writes plan.png
    tessera plan input/lm.ini --json=full | tools/plot_plan.py - -o plan.png

Above: the memory that lives over the predicted time of a step, on the rank with the largest tiles,
sections side by side. Below left: predicted seconds by kernel and by mesh dim. Below right: the
tiles of the largest weights: each box is a weight, cut as the layout cuts it; a colour for each mesh
dim that cuts, grey where every rank has the whole."""
import argparse
import json
import sys

try:
    import matplotlib
    matplotlib.use("Agg")  # before pyplot: no display is needed
    from matplotlib import pyplot, patches
except ImportError as missing:
    sys.exit(f"plot_plan.py needs the Python package matplotlib: {missing}")

KINDS = 8       # kernels that get a bar of their own
WEIGHTS = 12    # weights that are drawn
MOST_CUTS = 64  # lines drawn in a box


def draw_memory(axis, plan):
    now, ticks = 0.0, []
    base = plan["variable_bytes"]
    for section in plan["timeline"]:
        begin = now
        times, bytes_ = [], []
        for _ in range(min(section["runs"], 4)):
            for step in section["steps"]:
                seconds = step["compute_s"] + step["communication_s"]
                times += [now, now + seconds]
                bytes_ += [base + step["live_bytes"]] * 2
                if step["communication_s"] > 0:
                    axis.axvspan(now, now + step["communication_s"], color="tab:red", alpha=0.25,
                                 linewidth=0)
                now += seconds
        gib = [value / 2**30 for value in bytes_]
        axis.fill_between(times, gib, step=None, alpha=0.6, label=section["section"])
        ticks.append((begin, section["section"]))
    axis.axhline(base / 2**30, color="black", linewidth=0.8)
    axis.text(0, base / 2**30, " variables", va="bottom", fontsize=8)
    axis.axhline(plan["bytes_per_rank"]["total"] / 2**30, color="black", linestyle=":",
                 linewidth=0.8)
    axis.text(now, plan["bytes_per_rank"]["total"] / 2**30, "arena ", va="bottom", ha="right",
              fontsize=8)
    axis.set_xlim(0, now or 1)
    axis.set_ylim(0, 1.15 * plan["bytes_per_rank"]["total"] / 2**30)
    axis.set_xlabel("predicted seconds of a step (red: communication)")
    axis.set_ylabel("GiB on a rank")
    axis.legend(loc="upper left", fontsize=8, ncol=4)


def draw_times(axis, plan):
    predicted = plan["predicted"]
    kernels = sorted(predicted["by_kernel"].items(), key=lambda item: -item[1])
    bars = [(name, seconds, "tab:blue") for name, seconds in kernels[:KINDS]]
    rest = sum(seconds for _, seconds in kernels[KINDS:])
    if rest > 0:
        bars.append(("other work", rest, "tab:blue"))
    for row in predicted["by_mesh_dims"]:
        name = "communication " + "+".join(row["mesh_dims"])
        bars.append((name, row["seconds"], "tab:red"))
    bars.reverse()
    axis.barh([bar[0] for bar in bars], [bar[1] for bar in bars], color=[bar[2] for bar in bars])
    axis.set_xlabel("predicted seconds in a step")
    axis.tick_params(axis="y", labelsize=8)


def box(axis, weight, left, bottom, width, height, sizes, colours):
    """One weight: its last dim runs to the right, those before it down."""
    dims = weight["dims"]
    hues = [colours[name] for dim in weight["dims"] for name in dim["mesh_dims"]]
    axis.add_patch(patches.Rectangle((left, bottom), width, height,
                                     facecolor=hues[0] if hues else "0.85", alpha=0.45))
    axis.add_patch(patches.Rectangle((left, bottom), width, height, fill=False, linewidth=1))
    for which, dim in enumerate(dims):
        for name in dim["mesh_dims"]:
            parts = min(sizes[name], MOST_CUTS)
            for part in range(1, parts):
                if which + 1 < len(dims):
                    at = bottom + height * part / parts
                    axis.plot([left, left + width], [at, at], color=colours[name], linewidth=0.8)
                else:
                    at = left + width * part / parts
                    axis.plot([at, at], [bottom, bottom + height], color=colours[name],
                              linewidth=0.8)
    cuts = [f"{dim['name']}:{name}" for dim in weight["dims"] for name in dim["mesh_dims"]]
    shape = " × ".join(f"{dim['name']} {dim['size']}" for dim in weight["dims"])
    axis.text(left + width + 0.1, bottom + height / 2,
              f"{weight['name']}\n{shape}\n{', '.join(cuts) or 'whole on every rank'}",
              va="center", fontsize=6)


def draw_tiles(axis, plan):
    sizes = {dim["name"]: dim["size"] for dim in plan["mesh_dims"]}
    palette = pyplot.get_cmap("tab10")
    colours = {name: palette(i + 1) for i, name in enumerate(sizes)}
    weights, seen = [], set()
    for weight in sorted(plan["variables"], key=lambda w: -w["bytes"]):
        # Layers have equal weights: one of each form is enough.
        form = str([(dim["name"], dim["size"]) for dim in weight["dims"]])
        if form not in seen:
            seen.add(form)
            weights.append(weight)
    columns = 2
    for i, weight in enumerate(weights[:WEIGHTS]):
        row, column = divmod(i, columns)
        rows = weight["dims"][-2]["size"] if len(weight["dims"]) > 1 else 1
        width = min(1.2, max(0.25, 0.8 * (weight["dims"][-1]["size"] / rows) ** 0.5)) \
            if weight["dims"] else 0.25
        height = 0.15 if len(weight["dims"]) < 2 else 0.75
        box(axis, weight, 3.4 * column, -row, width, height, sizes, colours)
    axis.set_xlim(-0.1, 3.4 * columns)
    axis.set_ylim(-((min(len(weights), WEIGHTS) + columns - 1) // columns), 1.2)
    axis.axis("off")
    names = [patches.Patch(color=colours[name], label=f"{name} × {sizes[name]}") for name in sizes]
    if names:
        axis.legend(handles=names, loc="upper right", fontsize=8, ncol=len(names))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", help="output of `tessera plan DECK --json=full`, or -")
    parser.add_argument("-o", "--output", default="plan.png")
    args = parser.parse_args()
    text = sys.stdin.read() if args.plan == "-" else open(args.plan, encoding="utf-8").read()
    plan = json.loads(text)
    if "timeline" not in plan:
        sys.exit("plot_plan.py: this plan has no timeline: make it with --json=full")
    figure = pyplot.figure(figsize=(13, 9), constrained_layout=True)
    grid = figure.add_gridspec(2, 2, width_ratios=[1, 1.6], height_ratios=[1, 1.1])
    draw_memory(figure.add_subplot(grid[0, :]), plan)
    draw_times(figure.add_subplot(grid[1, 0]), plan)
    draw_tiles(figure.add_subplot(grid[1, 1]), plan)
    figure.suptitle(f"{plan['mesh'] or 'one rank'}: {plan['predicted_step_s']:.4g} s a step on "
                    f"{plan['predicted']['machine']}, "
                    f"{plan['bytes_per_rank']['total'] / 2**30:.2f} GiB a rank")
    figure.savefig(args.output, dpi=120)
    print(args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
