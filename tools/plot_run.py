#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the loss and throughput curves of one or more runs into one picture.

    tools/plot_run.py runs/lm                          writes runs/lm/curves.png
    tools/plot_run.py runs/a runs/b -o compare.png     two runs, one colour each
    tools/plot_run.py runs/d4pg --keys validation_reward,episode_reward    any keys of the metrics

Reads metrics.jsonl of each run folder (or the files named). Faint: each step; strong: the mean of
--smooth steps for the loss, their median for tokens/s; dots: validation loss.
"""

import argparse
import json
import math
import os
import sys

try:
    import numpy
    import matplotlib
    matplotlib.use("Agg")  # before pyplot: no display is needed
    from matplotlib import pyplot, ticker
except ImportError as missing:
    sys.exit(f"plot_run.py needs the Python packages numpy and matplotlib: {missing}")


class Wrong(Exception):
    """Something that the user can mend."""


def number(value):
    """JSON has no NaN: a loss that was not finite is null there."""
    return float("nan") if value is None else float(value)


class Run:
    """The curves of one run."""

    def __init__(self, name):
        self.name = name
        self.step, self.loss, self.speed, self.seconds = [], [], [], []
        self.validation_step, self.validation_loss = [], []
        self.series = {}  # key: (steps, values)

    def add(self, record):
        for key, value in record.items():
            if value is None or isinstance(value, (int, float)):
                steps, values = self.series.setdefault(key, ([], []))
                steps.append(int(record["step"]))
                values.append(number(value))
        if "loss" in record:
            self.step.append(int(record["step"]))
            self.loss.append(number(record["loss"]))
            self.speed.append(number(next((value for key, value in record.items()
                                           if key.endswith("_per_s")), None)))
            self.seconds.append(number(record.get("step_s")))
        if "validation_loss" in record:
            self.validation_step.append(int(record["step"]))
            self.validation_loss.append(number(record["validation_loss"]))

    def hours(self, steps):
        """Training time after each of the steps."""
        after = numpy.cumsum(numpy.nan_to_num(self.seconds)) / 3600
        return numpy.interp(steps, self.step, after)

    def median_speed(self):
        known = [speed for speed in self.speed if math.isfinite(speed)]
        return float(numpy.median(known)) if known else float("nan")


def read_run(path):
    """Reads a run folder or a metrics file."""
    file = os.path.join(path, "metrics.jsonl") if os.path.isdir(path) else path
    run = Run(os.path.basename(os.path.dirname(os.path.abspath(file))))
    try:
        with open(file, encoding="utf-8") as lines:
            text = lines.read()
    except OSError as error:
        raise Wrong(f"cannot read {file}: {error.strerror}") from None
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            run.add(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            # The last line of a run that is being written, or was killed, may be cut short.
            if place == len(lines) - 1:
                continue
            raise Wrong(f"{file}:{place + 1} is no line of metrics ({error})") from None
    if not run.series:
        raise Wrong(f"{file} holds no steps yet")
    return run


def smoothed(values, window, middle):
    """Means or medians of the last `window` values at each place (fewer at the beginning)."""
    values = numpy.asarray(values, float)
    out = numpy.full(len(values), numpy.nan)
    for end in range(1, len(values) + 1):
        part = values[max(0, end - window):end]
        part = part[numpy.isfinite(part)]
        if len(part):
            out[end - 1] = middle(part)
    return out


def draw(runs, options):
    """The figure of two panels over one axis of steps or hours."""
    figure, (loss, speed) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 7), layout="constrained",
                                            height_ratios=[2, 1])
    colours = pyplot.get_cmap("tab10").colors
    for place, run in enumerate(runs):
        colour = colours[place % len(colours)]
        across = run.hours if options.x == "hours" else numpy.asarray
        if run.step:
            x = across(run.step)
            window = options.smooth or max(1, len(run.step) // 100)
            loss.plot(x, run.loss, color=colour, alpha=0.25, linewidth=0.8)
            loss.plot(x, smoothed(run.loss, window, numpy.mean), color=colour, label=run.name)
            speed.plot(x, run.speed, color=colour, alpha=0.25, linewidth=0.8)
            speed.plot(x, smoothed(run.speed, window, numpy.median), color=colour,
                       label=f"{run.name}: median {run.median_speed():,.0f}")
        if run.validation_step:
            x = across(run.validation_step) if run.step else run.validation_step
            loss.plot(x, run.validation_loss, "o-", color=colour, markersize=5, linewidth=0.8,
                      markeredgecolor="white", label=f"{run.name}, validation")
    if options.log:
        loss.set_yscale("log")
    loss.set_ylabel("loss (nats per token)")
    speed.set_ylabel("tokens/s")
    speed.set_xlabel("training time (hours)" if options.x == "hours" else "step")
    speed.set_ylim(bottom=0)
    speed.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    for panel in (loss, speed):
        panel.grid(True, color="0.9")
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(frameon=False)
    return figure


def draw_keys(runs, options):
    """A figure of one panel for each of the keys, over one axis of steps or hours."""
    keys = options.keys.split(",")
    for key in keys:
        if not any(key in run.series for run in runs):
            known = sorted({name for run in runs for name in run.series})
            raise Wrong(f"no run has the key {key}; there are {', '.join(known)}")
    figure, panels = pyplot.subplots(len(keys), 1, sharex=True, squeeze=False, layout="constrained",
                                     figsize=(8, 1 + 3 * len(keys)))
    colours = pyplot.get_cmap("tab10").colors
    for key, panel in zip(keys, panels[:, 0]):
        for place, run in enumerate(runs):
            if key not in run.series:
                continue
            steps, values = run.series[key]
            x = run.hours(steps) if options.x == "hours" else steps
            window = options.smooth or max(1, len(steps) // 100)
            panel.plot(x, smoothed(values, window, numpy.mean), label=run.name,
                       color=colours[place % len(colours)], linewidth=1.2,
                       marker="o" if len(steps) < 60 else None, markersize=4)
        panel.set_ylabel(key)
        panel.grid(True, color="0.9")
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False)
        if options.log:
            panel.set_yscale("log")
    panels[-1, 0].set_xlabel("training time (hours)" if options.x == "hours" else "step")
    return figure


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="+", help="run folder (run.dir) or metrics.jsonl")
    parser.add_argument("-o", "--output",
                        help="picture (PNG); default: curves.png beside the first run")
    parser.add_argument("--x", choices=["step", "hours"], default="step",
                        help="horizontal axis (%(default)s)")
    parser.add_argument("--smooth", type=int, default=0,
                        help="steps to smooth over; 0: a hundredth of the run")
    parser.add_argument("--log", action="store_true", help="logarithmic loss")
    parser.add_argument("--keys", help="draw these keys of metrics.jsonl, separated by commas, "
                        "instead of loss and throughput")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    runs = [read_run(path) for path in options.run]
    first = options.run[0]
    folder = first if os.path.isdir(first) else os.path.dirname(first)
    output = options.output or os.path.join(folder, "curves.png")
    try:
        (draw_keys if options.keys else draw)(runs, options).savefig(output, dpi=120)
    except OSError as error:
        raise Wrong(f"cannot write {output}: {error.strerror}") from None
    print(output)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Wrong as wrong:
        print(f"plot_run.py: {wrong}", file=sys.stderr)
        sys.exit(2)
