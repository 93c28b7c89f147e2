# SPDX-License-Identifier: BSD-3-Clause
"""A run gives the same numbers on every mesh of MPI ranks."""

import runs

MESHES = [("batch:2,model:1", 2), ("batch:1,model:2", 2), ("batch:2,model:2", 4)]
PAIRS_DECK = """\
[model]
name = seq2seq
layers = 1
d_model = 24
d_ff = 48
heads = 3
vocab = 16
max_length = 24
positions = sinusoid
tied = true
[data]
source = pairs
batch = 16
length = 24
[optim]
name = adam
lr = 0.02
[train]
steps = 30
dtype = f32
[layout]
rules = batch:batch, vocab:model, d_ff:model, heads:model
"""


def test_losses_are_those_of_one_rank():
    with runs.Place() as place:
        place.run("train", "--run.dir=one", ranks=1, expect=0)
        expected = place.losses("one")
        runs.check(len(expected) == 12 and expected[-1] < expected[0], expected)
        for mesh, ranks in MESHES:
            folder = mesh.replace(":", "").replace(",", "_")
            place.run("train", f"--run.dir={folder}", f"--mesh.shape={mesh}", ranks=ranks, expect=0)
            losses = place.losses(folder)
            runs.check(runs.close(losses, expected, 1e-9), mesh, losses, expected)


def test_optimizer_state_and_micro_batches_may_be_cut():
    with runs.Place() as place:
        place.run("train", "--run.dir=one", ranks=1, expect=0)
        place.run("train", "--run.dir=cut", "--optim.shard=batch", "--train.micro_batches=3",
                  ranks=2, expect=0)
        runs.check(runs.close(place.losses("cut"), place.losses("one"), 1e-9),
                   place.losses("cut"), place.losses("one"))


def test_a_repeat_is_bitwise_equal():
    with runs.Place() as place:
        for folder in ("a", "b"):
            place.run("train", f"--run.dir={folder}", "--eval.every=4", ranks=2, expect=0)
        runs.check(place.metrics("a") == place.metrics("b"), place.metrics("a"), place.metrics("b"))


def test_mpi_in_rank_order_is_bitwise_equal_to_itself_and_close_to_mpi():
    with runs.Place() as place:
        place.run("train", "--run.dir=a", "--numerics.reduce=ordered", ranks=2, expect=0)
        place.run("train", "--run.dir=b", ranks=2, expect=0)
        runs.check(runs.close(place.losses("a"), place.losses("b"), 1e-9))


def test_eval_and_sample_agree_on_every_mesh():
    with runs.Place() as place:
        place.run("train", "--run.dir=run", "--eval.every=12", ranks=1, expect=0)
        (trained,) = [m["validation_loss"] for m in place.metrics("run") if "validation_loss" in m]
        sample = ["--sample.prompt=the mesh", "--sample.length=20", "--train.dtype=f32",
                  "--sample.temperature=0.5", "--sample.top_k=5"]
        text = None
        for mesh, ranks in [("batch:1,model:1", 1)] + MESHES:
            out = place.run("eval", "--run.dir=run", f"--mesh.shape={mesh}", "--json",
                            "--eval.batches=1", "--data.batch=7", ranks=ranks, expect=0).out
            loss = runs.json.loads(out.splitlines()[-1])["validation_loss"]
            runs.check(abs(loss - trained) < 1e-9, mesh, loss, trained)
            sampled = place.run("sample", "--run.dir=run", f"--mesh.shape={mesh}",
                                *[s for s in sample if "dtype" not in s], ranks=ranks, expect=0).out
            text = text or sampled
            runs.check(sampled == text and sampled.startswith("the mesh") and len(sampled) == 29,
                       mesh, sampled, text)


def test_prompts_of_a_file_continue_as_each_does_alone():
    prompts = ["the mesh of", "a", "cuts a tensor in"]
    with runs.Place() as place:
        place.run("train", "--run.dir=run", ranks=1, expect=0)
        (place.path / "prompts.txt").write_text("\n".join(prompts) + "\n")
        # Longer than data.length, so that the older half is forgotten twice.
        greedy = ["sample", "--run.dir=run", "--sample.length=15", "--sample.temperature=0"]
        alone = [place.run(*greedy, f"--sample.prompt={prompt}", ranks=1, expect=0).out
                 for prompt in prompts]
        runs.check(all(text.startswith(prompt) and len(text) == len(prompt) + 16
                       for text, prompt in zip(alone, prompts)), alone)
        expected = "".join(f"prompt {i}:\n{text}" for i, text in enumerate(alone, 1))
        for mesh, ranks in MESHES:
            result = place.run(*greedy, "--sample.prompt_file=prompts.txt", "--sample.batch=2",
                               f"--mesh.shape={mesh}", ranks=ranks, expect=0)
            runs.check(result.out == expected, mesh, result.out, expected)
            runs.check("45 tokens, " in result.err and "tokens/s" in result.err, result.err)


def test_beam_search_agrees_on_every_mesh():
    with runs.Place() as place:
        place.run("train", "--run.dir=run", ranks=1, expect=0)
        prompt = ["sample", "--run.dir=run", "--sample.prompt=the "]
        command = [*prompt, "--sample.length=9"]
        greedy = place.run(*command, "--sample.temperature=0", ranks=1, expect=0).out
        narrow = place.run(*command, "--sample.beam=1", ranks=1, expect=0).out
        runs.check(narrow == greedy, narrow, greedy)
        wide = place.run(*command, "--sample.beam=5", ranks=1, expect=0).out
        runs.check(wide.startswith("the ") and len(wide) == 14, wide)
        for mesh, ranks in MESHES:
            found = place.run(*command, "--sample.beam=5", f"--mesh.shape={mesh}", ranks=ranks,
                              expect=0).out
            runs.check(found == wide, mesh, found, wide)
        result = place.run(*prompt, "--sample.beam=2", "--sample.length=10", ranks=1, expect=2)
        runs.check("data.length = 12" in result.err, result)


def test_text_of_a_model_with_experts_agrees_on_every_mesh():
    experts = ["--model.moe.experts=4", "--model.moe.choices=2", "--model.moe.eval_capacity=4",
               "--layout.rules=batch:batch, experts:batch, vocab:model, d_ff:model, heads:model"]
    with runs.Place() as place:
        place.run("train", "--run.dir=run", *experts, ranks=1, expect=0)
        for search in (["--sample.temperature=0"], ["--sample.beam=5"]):
            texts = [place.run("sample", "--run.dir=run", *experts, "--sample.prompt=the ",
                               "--sample.length=8", f"--mesh.shape={mesh}", *search, ranks=ranks,
                               expect=0).out
                     for mesh, ranks in [("batch:1,model:1", 1)] + MESHES]
            runs.check(all(text == texts[0] for text in texts) and len(texts[0]) == 13, texts)


def test_translations_agree_on_every_mesh():
    with runs.Place(PAIRS_DECK) as place:
        place.run("train", "--run.dir=run", ranks=1, expect=0)
        (place.path / "lines.txt").write_text("abc de\nl\nfghi kb ccad\n")
        command = ["translate", "--run.dir=run", "--translate.input=lines.txt", "--translate.beam=3",
                   "--translate.best=3", "--translate.alpha=2", "--translate.batch=2", "--json"]
        expected = None
        for mesh, ranks in [("batch:1,model:1", 1)] + MESHES:
            out = place.run(*command, f"--mesh.shape={mesh}", ranks=ranks, expect=0).out
            found = [runs.json.loads(line) for line in out.splitlines()]
            expected = expected or found
            texts, wanted = [[(one["line"], one["text"]) for one in all] for all in (found, expected)]
            runs.check(texts == wanted and len(set(texts)) == 9, mesh, texts, wanted)
            runs.check(max(len(text) for _, text in texts) > 10, texts)
            for key in ("score", "log_probability"):
                values, wanted = [[one[key] for one in all] for all in (found, expected)]
                runs.check(runs.close(values, wanted, 1e-5), mesh, key, values, wanted)


if __name__ == "__main__":
    runs.main(dict(globals()))
