# SPDX-License-Identifier: BSD-3-Clause
"""Loss and one SGD step of the Transformer, plain and with experts, and two steps of Adafactor, against a program in JAX
that shares nothing with Tessera but the checkpoint, which it reads with h5py. CPU, float64."""

import pathlib
import tempfile

from runs_beside_jax import train, variables  # first: it skips without JAX

import h5py
import jax
import jax.numpy as jnp
import numpy as np

BATCH, LENGTH, VOCAB, LAYERS, HEADS, D_KV, LR = 4, 9, 23, 2, 3, 4, 0.5
DECK = f"""
[model]
layers = {LAYERS}
d_model = 10
d_ff = 14
heads = {HEADS}
d_kv = {D_KV}
vocab = {VOCAB}
max_length = {LENGTH}
[data]
source = tokens
path = tokens.h5
batch = {BATCH}
length = {LENGTH}
[optim]
name = sgd
lr = {LR}
[train]
steps = 1
dtype = f64
[layout]
rules = batch:batch, vocab:model, d_ff:model, heads:model
"""
# Relative positions, a window, and keys shared by two queries each.
BUCKETS, MAX_DISTANCE, WINDOW = 5, 7, 6
RELATIVE_KEYS = [
    "--model.positions=relative", f"--model.relative_buckets={BUCKETS}",
    f"--model.relative_distance={MAX_DISTANCE}", f"--model.window={WINDOW}",
    f"--model.heads={2 * HEADS}", f"--model.kv_heads={HEADS}",
    "--layout.rules=batch:batch, vocab:model, d_ff:model, heads:model, length:seq",
]
EXPERTS, BALANCE, Z_LOSS, PLACES = 3, 0.3, 0.05, 4
EXPERT_KEYS = [
    f"--model.moe.experts={EXPERTS}", f"--model.moe.balance={BALANCE}",
    f"--model.moe.z_loss={Z_LOSS}", "--model.moe.capacity=0.5", "--model.moe.every=2",
    "--layout.rules=batch:batch, vocab:model, d_ff:model, heads:model, experts:batch",
]


def norm(x, scope, w):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * w[scope + "/scale"] + w[scope + "/bias"]


def relative_buckets(length):
    """T5's buckets of [query, key] for keys up to the query."""
    distance = np.maximum(np.arange(length)[:, None] - np.arange(length)[None, :], 0)
    exact = BUCKETS // 2
    with np.errstate(divide="ignore"):
        large = np.log(distance / exact) / np.log(MAX_DISTANCE / exact) * (BUCKETS - exact)
    far = np.minimum(exact + np.maximum(large, 0).astype(int), BUCKETS - 1)
    return np.where(distance < exact, distance, far)


def attention(x, scope, w):
    def project(name):
        letters = "hgk" if w[f"{scope}/{name}"].ndim == 4 else "hk"
        y = jnp.einsum(f"bld,d{letters}->bl{letters}", x, w[f"{scope}/{name}"])
        return y + w[f"{scope}/{name}_bias"]

    q, k, v = project("query"), project("key"), project("value")
    q = q if q.ndim == 5 else q[:, :, :, None]
    scores = jnp.einsum("blhgk,bmhk->bhglm", q, k) / np.sqrt(D_KV)
    length = x.shape[1]
    visible = np.tril(np.ones((length, length), bool))
    if f"{scope}/relative_bias" in w:
        scores = scores + w[f"{scope}/relative_bias"][:, :, relative_buckets(length)]
        visible &= ~np.tril(np.ones((length, length), bool), -WINDOW)
    p = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf), -1)
    out = jnp.einsum("bhglm,bmhk->blhgk", p, v).reshape(*x.shape[:2], -1)
    return out @ w[f"{scope}/output"].reshape(out.shape[-1], -1) + w[f"{scope}/output_bias"]


def feed_forward(x, scope, w):
    h = jax.nn.gelu(x @ w[f"{scope}/up"] + w[f"{scope}/up_bias"], approximate=False)
    return h @ w[f"{scope}/down"] + w[f"{scope}/down_bias"]


def experts(x, scope, w, choices):
    """Every expert computes every token; masks say whose results count. Returns the layer's result
    and the gate's part of the loss."""
    logits = x @ w[f"{scope}/gate"]
    p = jax.nn.softmax(logits, -1)
    order = jnp.argsort(-logits, -1)
    shares = jnp.take_along_axis(p, order[..., :choices], -1)
    if choices > 1:
        shares = shares / shares.sum(-1, keepdims=True)
    h = jax.nn.gelu(jnp.einsum("bld,edh->bleh", x, w[f"{scope}/up"]), approximate=False)
    results = jnp.einsum("bleh,ehd->bled", h, w[f"{scope}/down"])
    y, taken, dropped = 0.0, jnp.zeros((BATCH, EXPERTS), int), 0
    for choice in range(choices):
        wanted = jax.nn.one_hot(order[..., choice], EXPERTS, dtype=int)
        rank = jnp.cumsum(wanted, 1) - 1 + taken[:, None, :]
        kept = wanted * (rank < PLACES)
        dropped += (wanted - kept).sum()
        taken = taken + wanted.sum(1)
        y = y + jnp.einsum("ble,bled->bld", kept * shares[..., choice, None], results)
    assert dropped > 0, "no token without a place"
    first = jax.nn.one_hot(order[..., 0], EXPERTS).mean((0, 1))
    gates = BALANCE * EXPERTS * (first * p.mean((0, 1))).sum()
    return y, gates + Z_LOSS * (jax.nn.logsumexp(logits, -1) ** 2).mean()


def loss(w, tokens, targets, choices=0):
    gates = 0.0
    x = w["embedding"][tokens]
    if "positions" in w:
        x = x + w["positions"][: tokens.shape[1]]
    for i in range(LAYERS):
        layer = f"layer_{i}"
        x = x + attention(norm(x, f"{layer}/attention_norm", w), f"{layer}/attention", w)
        middle = norm(x, f"{layer}/ffn_norm", w)
        if f"{layer}/ffn/gate" in w:
            y, part = experts(middle, f"{layer}/ffn", w, choices)
            x, gates = x + y, gates + part
        else:
            x = x + feed_forward(middle, f"{layer}/ffn", w)
    logits = norm(x, "final_norm", w) @ w["output"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits, -1), targets[..., None], -1)
    return gates - chosen.mean()


FACTORED = 10  # of the weights those of two large dims: tables and feed-forward layers


def adafactor(w, moments, g, step):
    """One step for one weight (Shazeer and Stern, arXiv:1804.04235)."""
    w, g = np.asarray(w), np.asarray(g)
    decay = 1 - step ** -0.8

    def mixed(name, sample):
        moments[name] = decay * moments.get(name, 0) + (1 - decay) * sample
        return moments[name]

    order = sorted(range(g.ndim), key=lambda dim: -g.shape[dim])
    square = g * g + 1e-30
    if g.ndim > 1 and g.shape[order[1]] >= FACTORED:
        row = mixed("row", square.mean(order[0], keepdims=True))
        column = mixed("column", square.mean(order[1], keepdims=True))
        variance = row * column / row.mean(order[1], keepdims=True)
    else:
        variance = mixed("variance", square)
    update = g / np.sqrt(variance)
    update = update / max(1, np.sqrt((update ** 2).mean()))
    return w - LR * max(1e-3, np.sqrt((w ** 2).mean())) * update


def check_adafactor(place, ranks, mesh, tokens, targets):
    settings = [f"--mesh.shape={mesh}", "--optim.name=adafactor", f"--optim.factored_size={FACTORED}"]
    first, _ = train(place, f"adafactor_first{mesh}", ranks, *settings, "--train.steps=0")
    after, _ = train(place, f"adafactor{mesh}", ranks, *settings, "--train.steps=2")
    w, found = variables(first), variables(after)
    moments = {name: {} for name in w}
    for step in (1, 2):
        slopes = jax.grad(loss)(w, tokens, targets)
        w = {name: jnp.asarray(adafactor(value, moments[name], slopes[name], step))
             for name, value in w.items()}
    # A bias of all keys has no gradient but round-off, which Adafactor would make large.
    worst = max(float(jnp.abs(found[name] - value).max()) for name, value in w.items()
                if not name.endswith("key_bias"))
    assert sum("row" in slots for slots in moments.values()) == 2 + 2 * LAYERS
    assert worst < 1e-9, f"{mesh}: weights differ by {worst} after two steps of Adafactor"
    print(f"{mesh}: weights after two steps of Adafactor within {worst:.1e}")


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_jax_") as folder:
        place = pathlib.Path(folder)
        (place / "deck.ini").write_text(DECK)
        # One batch is the whole data, so that its loss does not depend on the order of samples.
        ids = np.random.default_rng(5).integers(0, VOCAB, BATCH * LENGTH + 1).astype(np.uint8)
        with h5py.File(place / "tokens.h5", "w") as file:
            file["tokens/train"] = ids
            file["tokens/validation"] = ids
            file.attrs["vocab"] = VOCAB
        tokens = jnp.asarray(ids[:-1].reshape(BATCH, LENGTH), int)
        targets = jnp.asarray(ids[1:].reshape(BATCH, LENGTH), int)
        relative = "relative"
        for ranks, mesh, choices in [
            (1, "batch:1,model:1,seq:1", relative), (2, "batch:1,model:2,seq:1", relative),
            (2, "batch:1,model:1,seq:2", relative),
            (1, "batch:1,model:1", 0), (2, "batch:1,model:2", 0), (2, "batch:2,model:1", 0),
            (1, "batch:1,model:1", 1), (2, "batch:2,model:1", 2),
        ]:
            settings = [f"--mesh.shape={mesh}"]
            if choices == relative:
                settings, choices = settings + RELATIVE_KEYS, 0
            elif choices > 0:
                settings += [*EXPERT_KEYS, f"--model.moe.choices={choices}"]
            name = f"{mesh}_{choices}_{len(settings)}"
            first, _ = train(place, f"first{name}", ranks, *settings, "--train.steps=0")
            after, lines = train(place, f"step{name}", ranks, *settings)
            w = variables(first)
            expected, slopes = jax.value_and_grad(loss)(w, tokens, targets, choices)
            got = lines[0]["loss"]
            assert abs(got - float(expected)) / float(expected) < 1e-12, f"{mesh}: loss {got} for {float(expected)}"
            worst = 0.0
            found = variables(after)
            assert found.keys() == w.keys()
            for name, value in w.items():
                wanted = value - LR * slopes[name]
                worst = max(worst, float(jnp.abs(found[name] - wanted).max()))
                moved = float(jnp.abs(wanted - value).max())
                # A bias of all keys shifts all scores of a query alike: its gradient is zero.
                assert moved > 1e-9 or name.endswith("key_bias"), f"{name} has no gradient to check"
            assert worst < 1e-12, f"{mesh}: weights differ by {worst}"
            print(f"{mesh}, {choices} experts: loss {got:.12f}, weights after a step within {worst:.1e}")
        for ranks, mesh in [(1, "batch:1,model:1"), (2, "batch:1,model:2"), (2, "batch:2,model:1")]:
            check_adafactor(place, ranks, mesh, tokens, targets)


if __name__ == "__main__":
    main()
