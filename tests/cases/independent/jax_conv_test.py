# SPDX-License-Identifier: BSD-3-Clause
"""Loss, accuracy, running statistics and one SGD step of the convolutional net against a program in
JAX that shares nothing with Tessera but the checkpoint, with the picture whole and cut over rows
and columns. CPU, float64."""

import pathlib
import tempfile

from runs_beside_jax import train, variables  # first: it skips without JAX

import h5py
import jax
import jax.numpy as jnp
import numpy as np

SAMPLES, HEIGHT, WIDTH, CHANNELS, CLASSES, STAGES, LR = 6, 11, 9, 2, 5, 2, 0.25
DECK = f"""
[model]
name = convnet
height = {HEIGHT}
width = {WIDTH}
channels = {CHANNELS}
stages = {STAGES}
filters = 3
kernel = 4
pool = 2
hidden = 7
classes = {CLASSES}
batch_norm = true
[data]
source = arrays
path = pictures.h5
batch = {SAMPLES}
[optim]
name = sgd
lr = {LR}
[train]
steps = 1
dtype = f64
[layout]
rules = batch:batch, height:rows, width:cols
"""


def forward(w, images):
    """Logits, and the batch statistics that were met on the way."""
    x, statistics = images, {}
    for stage in range(STAGES):
        scope = f"stage_{stage}"
        x = jax.lax.conv_general_dilated(x, w[f"{scope}/conv"], (1, 1), "SAME",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        statistics[f"{scope}/norm/running_mean"] = mean
        statistics[f"{scope}/norm/running_variance"] = variance
        x = (x - mean) / jnp.sqrt(variance + 1e-5) * w[f"{scope}/norm/scale"] + w[f"{scope}/norm/bias"]
        x = jax.lax.reduce_window(jax.nn.relu(x), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1),
                                  "VALID")
    hidden = jax.nn.relu(jnp.einsum("bhwc,hwcd->bd", x, w["hidden"]) + w["hidden_bias"])
    return hidden @ w["classes"] + w["classes_bias"], statistics


def loss(w, images, labels):
    logits, _ = forward(w, images)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), labels[:, None], -1).mean()


def check_step(place, mesh, ranks, images, labels):
    first, _ = train(place, f"first{mesh}", ranks, f"--mesh.shape={mesh}", "--train.steps=0")
    after, lines = train(place, f"step{mesh}", ranks, f"--mesh.shape={mesh}")
    w, found = (variables(path, ("variables", "state")) for path in (first, after))
    assert len(found) == 14, sorted(found)
    expected, slopes = jax.value_and_grad(loss)(w, images, labels)
    logits, statistics = forward(w, images)
    error = abs(lines[0]["loss"] - float(expected)) / float(expected)
    assert error < 1e-12, f"{mesh}: loss {lines[0]['loss']} for {float(expected)}"
    accuracy = float((logits.argmax(-1) == labels).mean())
    assert abs(lines[0]["accuracy"] - accuracy) < 1e-6, f"{mesh}: {lines[0]} for {accuracy}"
    assert found.keys() == w.keys()
    worst = 0.0
    for name, value in w.items():
        if name in statistics:
            wanted = 0.9 * value + 0.1 * statistics[name]
        else:
            wanted = value - LR * slopes[name]
            assert float(jnp.abs(slopes[name]).max()) > 1e-9, f"{name} has no gradient to check"
        worst = max(worst, float(jnp.abs(found[name] - wanted).max()))
    assert worst < 1e-12, f"{mesh}: variables differ by {worst}"
    print(f"{mesh}: loss {lines[0]['loss']:.12f}, variables after a step within {worst:.1e}")


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_jax_") as folder:
        place = pathlib.Path(folder)
        (place / "deck.ini").write_text(DECK)
        random = np.random.default_rng(5)
        images = random.integers(0, 256, (SAMPLES, HEIGHT, WIDTH, CHANNELS)).astype(np.uint8)
        labels = random.integers(0, CLASSES, SAMPLES).astype(np.int32)
        with h5py.File(place / "pictures.h5", "w") as file:
            for part in ("train", "validation"):
                image = file.create_dataset(f"{part}/image", data=images)
                image.attrs["factor"] = 1 / 256
                file[f"{part}/label"] = labels
        for mesh, ranks in [("batch:1,rows:1,cols:1", 1), ("batch:1,rows:2,cols:1", 2),
                            ("batch:1,rows:1,cols:2", 2), ("batch:2,rows:1,cols:1", 2)]:
            check_step(place, mesh, ranks, jnp.asarray(images / 256), jnp.asarray(labels))


if __name__ == "__main__":
    main()
