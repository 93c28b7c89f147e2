#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Judge generated pictures by a convolutional net that Tessera trained on real ones.

usage: gan_score.py JUDGE REAL.h5 SAMPLES... [--json]

JUDGE is a run folder or checkpoint of the model convnet, REAL an array file of real pictures (its
validation part, or all of it), SAMPLES files of run.dir/samples or folders of such. Printed for
each, and for the real pictures:

  score      exp of the mean of KL(p(class | picture) || p(class)): 1 to the number of classes
  Fréchet    |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)) of the judge's hidden layer, real against
             generated
  as asked   share of the pictures in which the judge sees the class that was asked for

Both have the form of the Inception Score (Salimans et al. 2016) and the Fréchet Inception Distance
(Heusel et al. 2017), but another judge: numbers compare with each other under the same judge only.
"""

import argparse
import configparser
import json
import pathlib

import h5py
import numpy as np

from picture_grid import read_pictures


def newest_checkpoint(path):
    path = pathlib.Path(path)
    if not path.is_dir():
        return path
    files = sorted((path / "checkpoints").glob("step_*.h5"))
    if not files:
        raise SystemExit(f"{path}/checkpoints holds no step_*.h5")
    return files[-1]


class Judge:
    """The forward pass of the model convnet without batch norm, in numpy."""

    def __init__(self, path):
        path = newest_checkpoint(path)
        with h5py.File(path) as file:
            deck = configparser.ConfigParser(inline_comment_prefixes=("#",))
            text = file["meta"].attrs["deck"]
            deck.read_string(text.decode() if isinstance(text, bytes) else text)
            model = deck["model"]
            if model["name"] != "convnet" or model.getboolean("batch_norm"):
                raise SystemExit(f"{path}: the judge must be a convnet without batch norm")
            self.pool = model.getint("pool")
            weights = file["variables"]
            self.stages = [(weights[f"stage_{i}/conv"][()], weights[f"stage_{i}/conv_bias"][()])
                           for i in range(model.getint("stages"))]
            self.hidden = weights["hidden"][()], weights["hidden_bias"][()]
            self.classes = weights["classes"][()], weights["classes_bias"][()]

    def convolve(self, x, kernel, bias):
        taps = kernel.shape[0]
        before = (taps - 1) // 2
        x = np.pad(x, ((0, 0), (before, taps - 1 - before), (before, taps - 1 - before), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), (1, 2))
        return np.tensordot(windows, kernel, ((4, 5, 3), (0, 1, 2))) + bias

    def features(self, pictures):
        """The hidden layer [count, hidden]."""
        x = pictures
        for kernel, bias in self.stages:
            x = np.maximum(self.convolve(x, kernel, bias), 0)
            n, height, width, channels = x.shape
            rows, columns = height // self.pool, width // self.pool
            x = x[:, :rows * self.pool, :columns * self.pool]
            x = x.reshape(n, rows, self.pool, columns, self.pool, channels).max((2, 4))
        weight, bias = self.hidden
        if x.shape[1:] != weight.shape[:3]:
            raise SystemExit(f"the judge was trained on pictures of another size than "
                             f"{pictures.shape[1:]}")
        return np.maximum(np.tensordot(x, weight, ((1, 2, 3), (0, 1, 2))) + bias, 0)

    def probabilities(self, features):
        logits = features @ self.classes[0] + self.classes[1]
        logits = logits - logits.max(1, keepdims=True)
        p = np.exp(logits)
        return p / p.sum(1, keepdims=True)

    def __call__(self, pictures):
        """Features and class probabilities, in double."""
        parts = [self.features(pictures[i:i + 100]) for i in range(0, len(pictures), 100)]
        features = np.concatenate(parts).astype(np.float64)
        return features, self.probabilities(features)


def classifier_score(p):
    """exp(mean KL(p(y | x) || p(y)))."""
    tiny = 1e-30
    return float(np.exp((p * (np.log(p + tiny) - np.log(p.mean(0) + tiny))).sum(1).mean()))


def frechet_distance(a, b):
    """Of normal distributions with the means and covariances of the rows of a and b."""
    c1, c2 = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    values, vectors = np.linalg.eigh(c1)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ c2 @ root), 0)).sum()
    return float(((a.mean(0) - b.mean(0))**2).sum() + np.trace(c1) + np.trace(c2) - 2 * cross)


def sample_files(paths):
    files = []
    for path in map(pathlib.Path, paths):
        files += sorted(path.glob("step_*.h5")) if path.is_dir() else [path]
    if not files:
        raise SystemExit("there are no samples")
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge")
    parser.add_argument("real")
    parser.add_argument("samples", nargs="+")
    parser.add_argument("--json", action="store_true", help="one object a line")
    options = parser.parse_args()
    judge = Judge(options.judge)
    with h5py.File(options.real) as file:
        part = "validation" if "validation" in file else "train"
    real, real_labels = read_pictures(options.real, part)
    real_features, real_p = judge(real)

    def report(name, pictures, labels, features, p):
        distance = frechet_distance(real_features, features)
        right = None if labels is None else float((p.argmax(1) == labels).mean())
        numbers = {"file": str(name), "pictures": len(pictures), "score": classifier_score(p),
                   "frechet": distance, "as_asked": right}
        if options.json:
            print(json.dumps(numbers), flush=True)
        else:
            asked = "" if right is None else f"  as asked {100 * right:.1f} %"
            print(f"{name}  {len(pictures)} pictures  score {numbers['score']:.3f}  "
                  f"Fréchet {distance:.3f}{asked}", flush=True)

    report(f"{options.real} ({part})", real, real_labels, real_features, real_p)
    for path in sample_files(options.samples):
        pictures, labels = read_pictures(path)
        report(path, pictures, labels, *judge(pictures))


if __name__ == "__main__":
    main()
