# SPDX-License-Identifier: BSD-3-Clause
"""One update of the discriminator and one of the generator against a program in JAX that shares
nothing with Tessera but the checkpoint: losses, weights, running statistics, singular vectors, and
the random numbers that pictures are made of; spectral norms also against numpy's singular values.
With the batch whole, cut, and the picture cut. CPU, float64."""

import pathlib
import tempfile

from runs_beside_jax import train  # first: it skips without JAX

import h5py
import jax
import jax.numpy as jnp
import numpy as np
from philox import name_hash, philox, stream_key

ROWS, SIDE, CHANNELS, CLASSES, LATENT, SEED, D_LR, G_LR = 4, 8, 2, 3, 5, 11, 0.03, 0.05
DECK = f"""
[run]
seed = {SEED}
[model]
name = sngan
base = 2
channels = {CHANNELS}
classes = {CLASSES}
latent = {LATENT}
generator = 4,3
discriminator = 3,4
flat_blocks = 1
discriminator_steps = 1
discriminator_lr = {D_LR}
generator_lr = {G_LR}
[data]
source = arrays
path = pictures.h5
batch = {ROWS}
[optim]
name = sgd
[train]
steps = 1
dtype = f64
[layout]
rules = batch:data, height:rows
"""


def draw(phase):
    """Latent numbers and labels of the first update."""
    def blocks(name, count):
        key = stream_key(1, stream_key(SEED, name_hash(f"{phase}_{name}")))
        words = np.array([philox(key, i, 0) for i in range(count)])
        return ((words >> 8) + 0.5) / 2**24

    u = blocks("latent", ROWS * LATENT)
    normal = np.sqrt(-2 * np.log(u[:, 0])) * np.cos(2 * np.pi * u[:, 1])
    uniform = blocks("label", ROWS)[:, 2]
    labels = np.minimum(np.floor((CLASSES * uniform).astype(np.float32)), CLASSES - 1)
    latent = normal.astype(np.float32).astype(np.float64).reshape(ROWS, LATENT)
    return jnp.asarray(latent), jnp.asarray(labels.astype(np.int32))


def convolve(x, kernel, bias):
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias


def upsample(x):
    return x.repeat(2, 1).repeat(2, 2)


def halve(x):
    n, height, width, channels = x.shape
    return x.reshape(n, height // 2, 2, width // 2, 2, channels).mean((2, 4))


def generate(w, latent, labels):
    """Pictures, and the statistics of the batch that its norms met."""
    statistics = {}

    def norm(x, name, rows):
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        statistics[f"{name}/running_mean"], statistics[f"{name}/running_variance"] = mean, variance
        scale, bias = w[f"{name}/scale"], w[f"{name}/bias"]
        if rows is not None:
            scale, bias = scale[rows][:, None, None], bias[rows][:, None, None]
        return jax.nn.relu((x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias)

    def conv(x, name):
        return convolve(x, w[name], w[f"{name}_bias"])

    x = jnp.einsum("bl,lhwc->bhwc", latent, w["generator/first"]) + w["generator/first_bias"]
    for i in range(2):
        scope = f"generator/block_{i}"
        h = conv(upsample(norm(x, f"{scope}/norm_0", labels)), f"{scope}/conv_0")
        h = conv(norm(h, f"{scope}/norm_1", labels), f"{scope}/conv_1")
        x = h + conv(upsample(x), f"{scope}/shortcut")
    x = norm(x, "generator/last_norm", None)
    return jnp.tanh(conv(x, "generator/last")), statistics


def normalised(w, u, matrix_of):
    """The weight by its largest singular value as one iteration from u finds it, and the new u."""
    matrix = matrix_of(w)
    v = matrix.T @ u
    v = jax.lax.stop_gradient(v / jnp.linalg.norm(v))
    new = matrix @ v
    new = jax.lax.stop_gradient(new / jnp.linalg.norm(new))
    return w / (new @ matrix @ v), new


def discriminate(w, u, pictures, labels):
    """Scores, and the singular vectors after this pass."""
    moved = {}

    def weight(name, matrix_of=lambda t: t.reshape(-1, t.shape[-1]).T):
        key = f"{name}_u"
        value, new = normalised(w[name], u[key].reshape(-1), matrix_of)
        moved[key] = new.reshape(u[key].shape)
        return value

    def conv(x, name):
        return convolve(x, weight(name), w[f"{name}_bias"])

    x = pictures
    for i, down in enumerate((True, True, False)):
        scope = f"discriminator/block_{i}"
        h = conv(x if i == 0 else jax.nn.relu(x), f"{scope}/conv_0")
        h = conv(jax.nn.relu(h), f"{scope}/conv_1")
        shortcut = conv(x, f"{scope}/shortcut")
        x = halve(h) + halve(shortcut) if down else h + shortcut
    features = jax.nn.relu(x).sum((1, 2))
    plain = features @ weight("discriminator/score", lambda t: t.reshape(1, -1))
    table = weight("discriminator/score_classes", lambda t: t)
    return plain + w["discriminator/score_bias"] + (features * table[labels]).sum(1), moved


def discriminator_loss(w, u, latent, fake_labels, images, labels):
    fakes = jax.lax.stop_gradient(generate(w, latent, fake_labels)[0])
    scores, moved = discriminate(w, u, jnp.concatenate([2 * images - 1, fakes]),
                                 jnp.concatenate([labels, fake_labels]))
    real, fake = scores[:ROWS], scores[ROWS:]
    return (jax.nn.relu(1 - real) + jax.nn.relu(1 + fake)).mean(), moved


def generator_loss(w, u, latent, labels):
    pictures, statistics = generate(w, latent, labels)
    scores, _ = discriminate(w, u, pictures, labels)
    return -scores.mean(), statistics


# Compiled once for all meshes.
DISCRIMINATOR = jax.jit(jax.value_and_grad(discriminator_loss, has_aux=True))
GENERATOR = jax.jit(jax.value_and_grad(generator_loss, has_aux=True))


def tensors(path):
    """Weights and state of a checkpoint by name."""
    found = {}
    with h5py.File(path) as file:
        def keep(name, item):
            if isinstance(item, h5py.Dataset):
                found[name] = jnp.asarray(item[()], jnp.float64)
        for group in ("variables", "state"):
            file[group].visititems(keep)
    return found


def is_flat(name):
    """A later norm takes away what the generator's convolutions add to a whole channel, and both
    sides of the hinge pull at the score's bias alike."""
    return name == "discriminator/score_bias" or \
        name.startswith("generator/block") and name.endswith("_bias")


def expected_step(start, images, labels):
    """Losses of both nets and all tensors after the step."""
    after = dict(start)

    def descend(net, lr, slopes):
        for name, slope in slopes.items():
            if not name.startswith(net) or name.endswith(("_u", "running_mean", "running_variance")):
                continue
            assert float(jnp.abs(slope).max()) > 1e-9 or is_flat(name), f"{name} has no slope"
            after[name] = after[name] - lr * slope

    latent, fake_labels = draw("discriminator")
    (d_loss, moved), slopes = DISCRIMINATOR(start, start, latent, fake_labels, images, labels)
    descend("discriminator", D_LR, slopes)
    after.update(moved)
    (g_loss, statistics), slopes = GENERATOR(dict(after), dict(after), *draw("generator"))
    descend("generator", G_LR, slopes)
    for name, value in statistics.items():
        after[name] = 0.9 * start[name] + 0.1 * value
    return float(d_loss), float(g_loss), after


def check_singular_values(start):
    """Many iterations of normalised() end at numpy's largest singular value."""
    names = [name for name in start if name.endswith("_u")]
    assert len(names) == 3 * 3 + 2, names
    for name in names:
        u, w = np.asarray(start[name]), np.asarray(start[name[:-2]])
        by_rows = name.endswith("score_classes_u")
        matrix = w.reshape(u.size, -1) if by_rows else w.reshape(-1, u.size).T
        vector = u.reshape(-1)
        for _ in range(300):
            vector = matrix @ (matrix.T @ vector)
            vector /= np.linalg.norm(vector)
        value, _ = normalised(matrix, vector, lambda t: t)
        largest = np.linalg.svd(np.asarray(value), compute_uv=False)[0]
        assert abs(largest - 1) < 1e-9, f"{name}: {largest}"


def check_step(place, mesh, ranks, images, labels):
    first, _ = train(place, f"first{mesh}", ranks, f"--mesh.shape={mesh}", "--train.steps=0")
    last, lines = train(place, f"step{mesh}", ranks, f"--mesh.shape={mesh}")
    start, found = tensors(first), tensors(last)
    if ranks == 1:
        check_singular_values(start)
    d_loss, g_loss, expected = expected_step(start, images, labels)
    for key, value in (("discriminator/loss", d_loss), ("generator/loss", g_loss)):
        error = abs(lines[0][key] - value) / abs(value)
        assert error < 1e-11, f"{mesh}: {key} {lines[0][key]} for {value}"
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    worst = max((float(jnp.abs(found[name] - value).max()), name)
                for name, value in expected.items())
    assert worst[0] < 1e-11, f"{mesh}: {worst[1]} differs by {worst[0]}"
    print(f"{mesh}: losses {d_loss:.12f} and {g_loss:.12f}, all within {worst[0]:.1e}")


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_sngan_") as folder:
        place = pathlib.Path(folder)
        (place / "deck.ini").write_text(DECK)
        random = np.random.default_rng(5)
        # The first step takes each of as many samples as rows, in any order.
        images = random.integers(0, 256, (ROWS, SIDE, SIDE, CHANNELS)).astype(np.uint8)
        labels = random.integers(0, CLASSES, ROWS).astype(np.int32)
        with h5py.File(place / "pictures.h5", "w") as file:
            for part in ("train", "validation"):
                image = file.create_dataset(f"{part}/image", data=images)
                image.attrs["factor"] = 1 / 256
                file[f"{part}/label"] = labels
        for mesh, ranks in [("data:1,rows:1", 1), ("data:2,rows:1", 2), ("data:1,rows:2", 2)]:
            check_step(place, mesh, ranks, jnp.asarray(images / 256), jnp.asarray(labels))


if __name__ == "__main__":
    main()
