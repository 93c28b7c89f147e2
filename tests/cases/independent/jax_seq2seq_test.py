# SPDX-License-Identifier: BSD-3-Clause
"""The encoder-decoder model against a program in JAX that shares nothing with Tessera but the checkpoint: losses and
weights of SGD steps on packed pairs, each of which this program sees alone in its row, and translations with their
scores by a beam search that computes the whole decoder for every token. CPU, float64. Arguments: forms to check."""

import json
import pathlib
import sys
import tempfile

from runs_beside_jax import run, train, variables  # first: it skips without JAX

import h5py
import jax
import jax.numpy as jnp
import numpy as np

PIECES = ["", "", " ", *"abcdefghi", "ä"]
BEGIN, END, BLANK = 0, 1, 2
VOCAB, LENGTH, LONGEST, PAIRS, ROWS = len(PIECES), 16, 19, 21, 13
D_MODEL, D_KV, HEADS, LR, SMOOTHING, STEPS = 10, 4, 3, 0.3, 0.1, 2
DEPTHS = {"encoder": 1, "decoder": 2}
DECK = f"""
[model]
name = seq2seq
layers = {DEPTHS["decoder"]}
encoder_layers = {DEPTHS["encoder"]}
d_model = {D_MODEL}
d_ff = 14
heads = {HEADS}
d_kv = {D_KV}
vocab = {VOCAB}
max_length = {LONGEST}
label_smoothing = {SMOOTHING}
[data]
source = pairs
path = pairs.h5
validation_fraction = 0
batch = {ROWS}
length = {LENGTH}
[optim]
name = sgd
lr = {LR}
[train]
steps = {STEPS}
dtype = f64
"""
# Two query heads share a key head each, and see keys that are near.
BUCKETS, MAX_DISTANCE, WINDOW = 8, 11, 7
FORMS = {
    "learned": ["--model.norm=layer", "--model.bias=true"],
    "sinusoid": ["--model.positions=sinusoid", "--model.tied=true", "--model.activation=swiglu"],
    "relative": ["--model.positions=relative", f"--model.relative_buckets={BUCKETS}",
                 f"--model.relative_distance={MAX_DISTANCE}", f"--model.window={WINDOW}",
                 f"--model.heads={2 * HEADS}", f"--model.kv_heads={HEADS}", "--model.bias=true"],
}
RULES = "--layout.rules=batch:batch, vocab:model, d_ff:model, heads:model, length:seq, source_length:seq"
MESHES = [("batch:1,model:1,seq:1", 1), ("batch:2,model:1,seq:1", 2), ("batch:1,model:2,seq:1", 2),
          ("batch:1,model:1,seq:2", 2)]
LINES = ["ab cd", "", "ähi gf edc", "b", "abcde fghiä edcba"]  # the last is too long
SEARCHES = [(3, 0.6, LENGTH), (5, 0, LONGEST), (1, 1, 3)]  # beam, alpha, length


def norm(x, scope, w):
    shift = w.get(f"{scope}/bias")
    if shift is not None:
        x = x - x.mean(-1, keepdims=True)
    x = x / jnp.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-6) * w[f"{scope}/scale"]
    return x if shift is None else x + shift


def embed(ids, side, w):
    x = np.sqrt(D_MODEL) * w["embedding"][ids]
    if f"{side}/positions" in w:
        return x + w[f"{side}/positions"][: ids.shape[1]]
    if f"{side}/layer_0/self_attention/relative_bias" in w:
        return x
    half = D_MODEL // 2
    angles = np.arange(ids.shape[1])[:, None] * 10000.0 ** -(np.arange(half) / (half - 1))
    return x + np.concatenate([np.sin(angles), np.cos(angles)], 1)


def relative_buckets(behind, causal):
    """T5's buckets by how far a key is behind its query; half of them for keys ahead unless causal."""
    count = BUCKETS if causal else BUCKETS // 2
    distance = np.maximum(behind, 0) if causal else np.abs(behind)
    exact = count // 2
    with np.errstate(divide="ignore"):
        large = np.log(distance / exact) / np.log(MAX_DISTANCE / exact) * (count - exact)
    far = np.minimum(exact + np.maximum(large, 0).astype(int), count - 1)
    return np.where(distance < exact, distance, far) + (0 if causal else count * (behind < 0))


def attention(x, memory, scope, w, visible, buckets=None):
    def project(y, name):
        letters = "hgk" if w[f"{scope}/{name}"].ndim == 4 else "hk"
        return jnp.einsum(f"bld,d{letters}->bl{letters}", y, w[f"{scope}/{name}"]) + w.get(f"{scope}/{name}_bias", 0)

    q, k, v = project(x, "query"), project(memory, "key"), project(memory, "value")
    q = q if q.ndim == 5 else q[:, :, :, None]
    scores = jnp.einsum("blhgk,bmhk->bhglm", q, k) / np.sqrt(D_KV)
    if f"{scope}/relative_bias" in w:
        scores = scores + w[f"{scope}/relative_bias"][:, :, buckets]
    # Not infinite, since padding may see nothing.
    p = jax.nn.softmax(jnp.where(visible[:, None, None], scores, -1e30), -1)
    out = jnp.einsum("bhglm,bmhk->blhgk", p, v).reshape(*x.shape[:2], -1)
    return out @ w[f"{scope}/output"].reshape(out.shape[-1], -1) + w.get(f"{scope}/output_bias", 0)


def feed_forward(x, scope, w):
    h = x @ w[f"{scope}/up"] + w.get(f"{scope}/up_bias", 0)
    h = jax.nn.silu(x @ w[f"{scope}/gate"]) * h if f"{scope}/gate" in w else jax.nn.relu(h)
    return h @ w[f"{scope}/down"] + w.get(f"{scope}/down_bias", 0)


def stream(ids, side, w, there, memory=None):
    """What the encoder gives, or the decoder with a `memory`; `there` tells a source from what is behind it."""
    causal = side == "decoder"
    behind = np.arange(ids.shape[1])[:, None] - np.arange(ids.shape[1])
    visible = (behind >= 0)[None] if causal else there[:, None]
    if f"{side}/layer_0/self_attention/relative_bias" in w:
        visible = visible & (np.abs(behind) < WINDOW)
    x = embed(ids, side, w)
    for i in range(DEPTHS[side]):
        layer = f"{side}/layer_{i}"
        y = norm(x, f"{layer}/self_attention_norm", w)
        x = x + attention(y, y, f"{layer}/self_attention", w, visible, relative_buckets(behind, causal))
        if causal:
            y = norm(x, f"{layer}/cross_attention_norm", w)
            x = x + attention(y, memory, f"{layer}/cross_attention", w, there[:, None])
        x = x + feed_forward(norm(x, f"{layer}/ffn_norm", w), f"{layer}/ffn", w)
    return norm(x, f"{side}/final_norm", w)


@jax.jit
def log_probabilities(w, source, there, tokens):
    """[row, place, vocab] of what follows each token of a target."""
    out = stream(tokens, "decoder", w, there, stream(source, "encoder", w, there))
    return jax.nn.log_softmax(out @ (w["output"] if "output" in w else w["embedding"].T), -1)


@jax.jit
@jax.value_and_grad
def loss(w, source, there, tokens, targets, weights):
    log_p = log_probabilities(w, source, there, tokens)
    chosen = jnp.take_along_axis(log_p, targets[..., None], -1)[..., 0]
    each = (1 - SMOOTHING) * chosen + SMOOTHING * log_p.mean(-1)
    return -(each * weights).sum() / weights.sum()


def arrays(path):
    return {name: np.asarray(value) for name, value in variables(path).items()}


def padded(sequences):
    """[sequence, place] of ids, zeros behind the ends, and where ids are."""
    ids, there = np.zeros((2, len(sequences), LONGEST), int)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        there[row, : len(sequence)] = 1
    return ids, there > 0


def write_pairs(path):
    """A pairs file of words and the same turned round without blanks. Returns those that fit."""
    random = np.random.default_rng(3)
    sizes = [LENGTH + 1, *random.integers(1, LENGTH, PAIRS)]
    sources = [[*random.integers(BLANK, VOCAB, size - 1), END] for size in sizes]
    targets = [[*(id for id in reversed(ids[:-1]) if id != BLANK), END] for ids in sources]
    pieces = [piece.encode() for piece in PIECES]
    with h5py.File(path, "w") as file:
        for name, side in (("source", sources), ("target", targets)):
            file[f"train/{name}"] = np.concatenate(side).astype(np.uint8)
            file[f"train/{name}_ends"] = np.cumsum([len(ids) for ids in side])
        file["pieces/bytes"] = np.frombuffer(b"".join(pieces), np.uint8)
        file["pieces/ends"] = np.cumsum([len(piece) for piece in pieces])
        file.attrs["vocab"] = VOCAB
    return sources[1:], targets[1:]


def check_steps(place, form, sources, targets):
    settings = [RULES, *FORMS[form]]
    first, _ = train(place, f"{form}_first", 1, f"--mesh.shape={MESHES[0][0]}", *settings, "--train.steps=0")
    (ids, there), (wanted, weights) = padded(sources), padded(targets)
    tokens, _ = padded([[BEGIN, *target[:-1]] for target in targets])
    start = w = arrays(first)
    losses = []
    for _ in range(STEPS):
        value, slopes = loss(w, ids, there, tokens, wanted, weights)
        losses.append(float(value))
        w = {name: weight - LR * np.asarray(slopes[name]) for name, weight in w.items()}
    for name, value in w.items():
        # A bias of all keys shifts all scores of a query alike: its gradient is zero.
        assert np.abs(value - start[name]).max() > 1e-9 or name.endswith("key_bias"), name
    for mesh, ranks in MESHES:
        after, lines = train(place, f"{form}_{mesh}", ranks, f"--mesh.shape={mesh}", *settings)
        # All pairs in one batch of fewer rows: some share one.
        assert lines[0]["tokens"] == weights.sum() and ROWS < len(sources), lines
        error = max(abs(line["loss"] - value) / value for line, value in zip(lines, losses))
        assert len(lines) == STEPS and error < 1e-12, f"{form}, {mesh}: losses {lines} for {losses}"
        found = arrays(after)
        assert found.keys() == w.keys()
        worst = max(np.abs(found[name] - value).max() for name, value in w.items())
        assert worst < 1e-12, f"{form}, {mesh}: weights differ by {worst}"
        print(f"{form}, {mesh}: losses within {error:.1e}, weights within {worst:.1e}", flush=True)


def search(w, source, beam, alpha, longest):
    """Beam search to the last step, without an early end: (score, log probability, ids), best first."""
    rows, there = padded(beam * [source])
    alive, finished = [(0.0, [])], []
    for length in range(1, longest + 1):
        tokens, _ = padded([[BEGIN, *ids] for _, ids in alive] + (beam - len(alive)) * [[BEGIN]])
        following = np.asarray(log_probabilities(w, rows, there, tokens))[:, length - 1]
        grown = sorted(((total + following[i, id], [*ids, id])
                        for i, (total, ids) in enumerate(alive) for id in range(VOCAB)), reverse=True)[: 2 * beam]
        penalty = ((5 + length) / 6) ** alpha
        finished += [(total / penalty, total, ids) for total, ids in grown if ids[-1] == END]
        alive = [(total, ids) for total, ids in grown if ids[-1] != END][:beam]
    return sorted(finished, reverse=True)[:beam] or [(total / penalty, total, ids) for total, ids in alive]


def check_translations(place, form):
    trained, _ = train(place, f"{form}_trained", 1, *FORMS[form], "--optim.name=adam", "--optim.lr=0.02",
                       "--train.steps=60")
    w = arrays(trained)
    sources = [[PIECES.index(piece) for piece in line][: LENGTH - 1] + [END] for line in LINES]
    ended = set()
    for beam, alpha, longest in SEARCHES:
        wanted = []
        for number, source in enumerate(sources, 1):
            found = search(w, source, beam, alpha, longest)
            ended.add(found[0][-1][-1] == END)
            wanted += [(number, "".join(PIECES[id] for id in ids if id != END), score, total)
                       for score, total, ids in found]
        settings = [f"--run.dir={form}_trained", f"{RULES}, memory:seq", *FORMS[form], "--json",
                    "--translate.input=lines.txt", "--translate.batch=2", f"--translate.beam={beam}",
                    f"--translate.best={beam}", f"--translate.alpha={alpha}", f"--translate.length={longest}"]
        for mesh, ranks in MESHES:
            lines = run(place, "translate", ranks, *settings, f"--mesh.shape={mesh}").splitlines()
            got = [json.loads(line) for line in lines]
            assert [(one["line"], one["text"]) for one in got] == [one[:2] for one in wanted], (got, wanted)
            worst = max(abs(one[key] - value) for one, (*_, score, total) in zip(got, wanted)
                        for key, value in (("score", score), ("log_probability", total)))
            assert worst < 1e-10, f"{form}, {mesh}, beam {beam}: scores differ by {worst}"
            print(f"{form}, {mesh}, beam {beam}: {len(got)} translations, scores within {worst:.1e}", flush=True)
    assert len(ended) == 2, f"{form}: translations end always or never"


def main():
    with tempfile.TemporaryDirectory(prefix="tessera_jax_") as folder:
        place = pathlib.Path(folder)
        (place / "deck.ini").write_text(DECK)
        (place / "lines.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
        sources, targets = write_pairs(place / "pairs.h5")
        for form in sys.argv[1:] or FORMS:
            check_steps(place, form, sources, targets)
            check_translations(place, form)


if __name__ == "__main__":
    main()
