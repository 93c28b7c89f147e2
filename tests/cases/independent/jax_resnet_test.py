# SPDX-License-Identifier: BSD-3-Clause
"""Loss, top-1, running statistics and one step of momentum SGD of a ResNet-50 of few filters
against a program in JAX that shares nothing with Tessera but the checkpoint, and top-1
and top-5 over an uneven validation set. CPU, float64."""

import json
import pathlib
import tempfile

from runs_beside_jax import train, variables  # first: it skips without JAX

import h5py
import jax
import jax.numpy as jnp
import numpy as np

SAMPLES, HELD, HEIGHT, WIDTH, CHANNELS, CLASSES = 6, 11, 47, 42, 3, 8
BLOCKS, FILTERS, LR, DECAY, SMOOTHING, STEPS = (3, 4, 6, 3), 3, 0.25, 0.01, 0.1, 2
DECK = f"""
[model]
name = resnet
depth = 50
blocks = {", ".join(map(str, BLOCKS))}
height = {HEIGHT}
width = {WIDTH}
channels = {CHANNELS}
filters = {FILTERS}
classes = {CLASSES}
label_smoothing = {SMOOTHING}
zero_init = false
[data]
source = arrays
path = pictures.h5
batch = {SAMPLES}
[optim]
name = momentum
lr = {LR}
weight_decay = {DECAY}
[train]
steps = {STEPS}
dtype = f64
[eval]
every = {STEPS}
[layout]
rules = batch:batch, height:rows, width:cols
"""


class Net:
    """A forward pass that notes the statistics which it meets, or uses the running ones."""

    def __init__(self, w, training):
        self.w, self.training, self.statistics = w, training, {}

    def conv(self, x, name, stride):
        return jax.lax.conv_general_dilated(x, self.w[name], (stride, stride), "SAME",
                                            dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def norm(self, x, name):
        w = self.w
        if self.training:
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            self.statistics[f"{name}/running_mean"] = mean
            self.statistics[f"{name}/running_variance"] = variance
        else:
            mean, variance = w[f"{name}/running_mean"], w[f"{name}/running_variance"]
        return (x - mean) / jnp.sqrt(variance + 1e-5) * w[f"{name}/scale"] + w[f"{name}/bias"]

    def __call__(self, x):
        x = jax.nn.relu(self.norm(self.conv(x, "stem/conv", 2), "stem/norm"))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for stage, blocks in enumerate(BLOCKS):
            for block in range(blocks):
                scope = f"stage_{stage}/block_{block}"
                stride = 2 if stage > 0 and block == 0 else 1
                y = x
                for name, step in (("narrow", 1), ("middle", stride), ("wide", 1)):
                    y = self.norm(self.conv(y, f"{scope}/{name}", step), f"{scope}/{name}_norm")
                    y = y if name == "wide" else jax.nn.relu(y)
                if block == 0:
                    x = self.norm(self.conv(x, f"{scope}/shortcut", stride),
                                  f"{scope}/shortcut_norm")
                x = jax.nn.relu(x + y)
        return x.mean((1, 2)) @ self.w["classes"] + self.w["classes_bias"]


def loss(w, images, labels):
    net = Net(w, training=True)
    logs = jax.nn.log_softmax(net(images), -1)
    target = (1 - SMOOTHING) * jax.nn.one_hot(labels, CLASSES) + SMOOTHING / CLASSES
    return -(target * logs).sum(-1).mean(), net.statistics


def steps(w, images, labels):
    """Losses, and all variables after the steps."""
    velocity = {name: jnp.zeros_like(value) for name, value in w.items()}
    losses = []
    for _ in range(STEPS):
        (value, statistics), slopes = jax.value_and_grad(loss, has_aux=True)(w, images, labels)
        losses.append(float(value))
        after = {}
        for name, weight in w.items():
            if name in statistics:
                after[name] = 0.9 * weight + 0.1 * statistics[name]
                continue
            assert float(jnp.abs(slopes[name]).max()) > 1e-9, f"{name} has no gradient to check"
            velocity[name] = 0.9 * velocity[name] + slopes[name]
            decay = DECAY if weight.ndim > 1 else 0
            after[name] = weight - LR * (velocity[name] + decay * weight)
        w = after
    return losses, w


def check(place, mesh, ranks, pictures):
    first, _ = train(place, f"first{mesh}", ranks, f"--mesh.shape={mesh}", "--train.steps=0")
    after, lines = train(place, f"steps{mesh}", ranks, f"--mesh.shape={mesh}")
    w = variables(first, ("variables", "state"))
    losses, wanted = steps(w, *pictures["train"])
    error = max(abs(line["loss"] - value) / value for line, value in zip(lines, losses))
    assert error < 1e-11, f"{mesh}: losses {lines} for {losses}"
    found = variables(after, ("variables", "state"))
    assert found.keys() == w.keys()
    worst = max(float(jnp.abs(found[name] - value).max()) for name, value in wanted.items())
    assert worst < 1e-9, f"{mesh}: variables differ by {worst}"

    images, labels = pictures["validation"]
    order = jnp.argsort(-Net(wanted, training=False)(images), -1)
    ranks_of_labels = (order == labels[:, None]).argmax(-1)
    metrics = (place / f"steps{mesh}" / "metrics.jsonl").read_text().splitlines()
    last = [line for line in map(json.loads, metrics) if "validation_top5" in line][-1]
    assert last["validation_images"] == HELD
    for name, count in (("top1", 1), ("top5", 5)):
        share = float((ranks_of_labels < count).mean())
        assert abs(last[f"validation_{name}"] - share) < 1e-6, f"{mesh}: {last} for {share}"
    print(f"{mesh}: losses within {error:.1e}, variables within {worst:.1e}, "
          f"top-5 {last['validation_top5']:.3f}")


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_jax_") as folder:
        place = pathlib.Path(folder)
        (place / "deck.ini").write_text(DECK)
        random = np.random.default_rng(5)
        pictures = {}
        with h5py.File(place / "pictures.h5", "w") as file:
            for part, count in (("train", SAMPLES), ("validation", HELD)):
                images = random.integers(0, 256, (count, HEIGHT, WIDTH, CHANNELS)).astype(np.uint8)
                labels = random.integers(0, CLASSES, count).astype(np.int32)
                file.create_dataset(f"{part}/image", data=images).attrs["factor"] = 1 / 256
                file[f"{part}/label"] = labels
                pictures[part] = jnp.asarray(images / 256), jnp.asarray(labels)
        for mesh, ranks in [("batch:1,rows:1,cols:1", 1), ("batch:1,rows:2,cols:1", 2)]:
            check(place, mesh, ranks, pictures)


if __name__ == "__main__":
    main()
