# SPDX-License-Identifier: BSD-3-Clause
"""Learner steps of D4PG against a program in JAX that shares nothing with Tessera but the
checkpoints: which transitions are drawn from the replay and how they are weighed, the projection of
what the copies expect, critic and policy with their gradients by JAX, clipping and two Adams, the
priorities that the critic leaves, and the copies that follow. With the batch and the layers whole
and cut. CPU, float64."""

import pathlib
import tempfile

from runs_beside_jax import train  # first: it skips without JAX

import h5py
import jax
import jax.numpy as jnp
import numpy as np
from philox import name_hash, philox, stream_key

ATOMS, LOW, HIGH, ROWS, SEED, STEPS, RATE, PERIOD = 11, 0.0, 20.0, 12, 7, 4, 0.25, 2
SEEN, DONE, COUNT, ALPHA, BETA, LR, POLICY_LR, CLIP = 3, 1, 5, 0.6, 0.4, 0.004, 0.002, 0.8
DECK = f"""
[run]
seed = {SEED}
[model]
name = d4pg
hidden = 12
layers = 2
atoms = {ATOMS}
v_min = {LOW}
v_max = {HIGH}
policy_lr = {POLICY_LR}
target_rate = {RATE}
target_period = {PERIOD}
[env]
name = pendulum
count = {COUNT}
steps_per_update = 2
warmup = 60
replay = 75
priority_exponent = {ALPHA}
priority_beta = {BETA}
n_step = 3
[data]
batch = {ROWS}
[optim]
name = adam
lr = {LR}
beta1 = 0.8
beta2 = 0.95
epsilon = 1e-6
clip_norm = {CLIP}
[train]
dtype = f64
[checkpoint]
every = 1
keep = 0
[layout]
rules = batch:batch, environment:batch, hidden:model, atom:model
"""
SUPPORT = jnp.linspace(LOW, HIGH, ATOMS)


def uniform(key, step, index):
    """48 random bits."""
    high, low = (philox(key, i >> 2, step)[i & 3] for i in (2 * index, 2 * index + 1))
    return (((high << 16) | (low >> 16)) + 0.5) / 2**48


def tensors(path):
    """All tensors of a checkpoint by path."""
    found = {}
    with h5py.File(path) as file:
        def keep(name, item):
            if isinstance(item, h5py.Dataset):
                found[name] = np.asarray(item[()], np.float64)
        file.visititems(keep)
    return found


def weights_at_draw(before, after):
    """Of all places of the replay, those added since with the highest priority so far; and that."""
    rounds = after["env/replay/transitions"].shape[1]
    weights = before["env/replay/weights"][:-1].reshape(COUNT, rounds).copy()
    highest = before["env/replay/weights"][-1]
    for e in range(COUNT):
        first, last = (int(t["env/replay/counts"][e]) for t in (before, after))
        for i in range(first, last):
            weights[e, i % rounds] = highest**ALPHA
    return weights.reshape(-1), highest


def draw(before, after, step):
    """Items and the batch of the step that lies between two checkpoints."""
    weights, highest = weights_at_draw(before, after)
    key = stream_key(SEED, name_hash("replay"))
    ends = np.cumsum(weights)
    drawn = np.array([uniform(key, step, i) for i in range(ROWS)]) * ends[-1]
    assert np.abs(drawn[:, None] - ends).min() > 1e-9, "a draw on the border of two items"
    items = np.searchsorted(ends, drawn, side="right")
    stored = np.count_nonzero(weights)
    importance = (stored * weights[items] / ends[-1]) ** -BETA
    rows = after["env/replay/transitions"].reshape(weights.size, -1)[items]
    parts = np.split(rows, np.cumsum([SEEN, DONE, 1, 1]), axis=1)
    names = ("observation", "action", "reward", "discount", "next")
    batch = {name: jnp.asarray(part) for name, part in zip(names, parts)}
    # Tessera's inputs are f32.
    importance = np.asarray(importance / importance.max(), np.float32).astype(np.float64)
    batch["weights"] = jnp.asarray(importance)
    return items, batch, weights, highest


def torso(w, scope, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    x = (x - mean) / jnp.sqrt(variance + 1e-5)
    x = jnp.tanh(x * w[f"{scope}/norm/scale"] + w[f"{scope}/norm/bias"])
    return jax.nn.elu(x @ w[f"{scope}/layer_1"] + w[f"{scope}/layer_1_bias"])


def policy(w, seen, scope="policy"):
    x = torso(w, scope, seen @ w[f"{scope}/layer_0"] + w[f"{scope}/layer_0_bias"])
    return jnp.tanh(x @ w[f"{scope}/action"] + w[f"{scope}/action_bias"])


def critic(w, seen, action, scope="critic"):
    both = jnp.concatenate([seen, action], -1)
    first = jnp.concatenate([w[f"{scope}/layer_0"], w[f"{scope}/layer_0_action"]])
    x = torso(w, scope, both @ first + w[f"{scope}/layer_0_bias"])
    return x @ w[f"{scope}/atoms"] + w[f"{scope}/atoms_bias"]


def project(p, reward, discount):
    """Algorithm 1 of Bellemare, Dabney and Munos 2017, in numpy."""
    p, reward, discount = (np.asarray(part) for part in (p, reward, discount))
    moved = np.clip(reward + discount * np.asarray(SUPPORT), LOW, HIGH)
    place = (moved - LOW) * (ATOMS - 1) / (HIGH - LOW)
    below, above = np.floor(place).astype(int), np.ceil(place).astype(int)
    result, row = np.zeros_like(p), np.arange(len(p))[:, None].repeat(ATOMS, 1)
    np.add.at(result, (row, below), p * np.where(below == above, 1, above - place))
    np.add.at(result, (row, above), p * (place - below))
    return jnp.asarray(result)


def critic_loss(trained, w, batch, target):
    logits = critic({**w, **trained}, batch["observation"], batch["action"])
    rows = -(jax.nn.log_softmax(logits) * target).sum(-1)
    return (rows * batch["weights"]).sum() / ROWS, rows


def policy_loss(trained, w, batch):
    actions = policy({**w, **trained}, batch["observation"])
    p = jax.nn.softmax(critic(w, batch["observation"], actions))
    return -(p * SUPPORT).sum() / ROWS


CRITIC = jax.jit(jax.value_and_grad(critic_loss, has_aux=True))
POLICY = jax.jit(jax.value_and_grad(policy_loss))


def of_net(w, net):
    return {name: value for name, value in w.items() if name.startswith(net)}


def adam(after, slopes, lr, step):
    """Clipped, then Kingma and Ba's algorithm 1; the gradients' norm."""
    norm = float(jnp.sqrt(sum((slope**2).sum() for slope in slopes.values())))
    for name, slope in slopes.items():
        g = slope * min(1, CLIP / norm)
        mean, variance = f"optimizer/mean/{name}", f"optimizer/variance/{name}"
        after[mean] = 0.8 * after[mean] + 0.2 * g
        after[variance] = 0.95 * after[variance] + 0.05 * g**2
        root = jnp.sqrt(after[variance] / (1 - 0.95**step))
        key = f"variables/{name}"
        after[key] = after[key] - lr * (after[mean] / (1 - 0.8**step)) / (root + 1e-6)
    return norm


def learn(before, after, step):
    """Losses and gradient norms of both nets, and all tensors that the learner leaves."""
    expected = {name: jnp.asarray(value) for name, value in before.items()
                if not name.startswith("env/")}

    def weights(group="variables/"):
        return {name[len(group):]: value for name, value in expected.items()
                if name.startswith(group)}

    items, batch, priorities, highest = draw(before, after, step)
    copies = {name.removeprefix("target/"): value for name, value in weights("state/").items()}
    imagined = critic(copies, batch["next"], policy(copies, batch["next"]))
    target = project(jax.nn.softmax(imagined), batch["reward"], batch["discount"])
    w = weights()
    (c_loss, rows), slopes = CRITIC(of_net(w, "critic"), w, batch, target)
    norms = [adam(expected, slopes, LR, step + 1)]
    for item, row in zip(items, np.asarray(rows)):
        priority = max(row, 1e-6)
        priorities[item], highest = priority**ALPHA, max(highest, priority)
    w = weights()
    p_loss, slopes = POLICY(of_net(w, "policy"), w, batch)
    norms.append(adam(expected, slopes, POLICY_LR, step + 1))
    if (step + 1) % PERIOD == 0:
        for name, value in weights().items():
            copy = f"state/target/{name}"
            expected[copy] = (1 - RATE) * expected[copy] + RATE * value
    expected["env/replay/weights"] = np.append(priorities, highest)
    return (float(c_loss), float(p_loss)), norms, expected


def check(place, mesh, ranks):
    newest, lines = train(place, f"run{mesh}", ranks, f"--mesh.shape={mesh}",
                          f"--train.steps={STEPS}")
    train(place, f"first{mesh}", ranks, f"--mesh.shape={mesh}", "--train.steps=0")
    files = [place / f"first{mesh}" / "checkpoints" / "step_00000000.h5"]
    files += sorted(newest.parent.glob("step_*.h5"))
    assert len(files) == STEPS + 1, files
    worst = (0, "")
    for step in range(STEPS):
        before, after = tensors(files[step]), tensors(files[step + 1])
        losses, norms, expected = learn(before, after, step)
        for key, value in zip(("critic/loss", "policy/loss"), losses):
            error = abs(lines[step][key] - value)
            assert error < 1e-9, f"{mesh}: step {step + 1}: {key} {lines[step][key]} for {value}"
        norm = np.hypot(*norms)
        assert abs(lines[step]["grad_norm"] - norm) < 1e-9, f"{mesh}: {lines[step]} for {norm}"
        assert max(norms) > CLIP, f"nothing was clipped: {norms}"
        left = {name for name in after if not name.startswith("env/")} | {"env/replay/weights"}
        assert left == expected.keys(), left ^ expected.keys()
        worst = max(worst, max((float(np.abs(after[name] - value).max()), name)
                               for name, value in expected.items()))
        assert worst[0] < 1e-9, f"{mesh}: step {step + 1}: {worst[1]} differs by {worst[0]}"
    print(f"{mesh}: {STEPS} steps, all within {worst[0]:.1e}")


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_agent_") as folder:
        place = pathlib.Path(folder)
        (place / "deck.ini").write_text(DECK)
        for mesh, ranks in [("batch:1,model:1", 1), ("batch:2,model:1", 2), ("batch:1,model:2", 2)]:
            check(place, mesh, ranks)


if __name__ == "__main__":
    main()
