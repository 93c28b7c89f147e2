# SPDX-License-Identifier: BSD-3-Clause
"""Every deck that comes with Tessera plans in less than a second of processor time, on however many
ranks: the published models with their published sizes, on their meshes. The search finds a layout that is
no worse than the published one, and each machine of input/machines gives a prediction."""

import json
import os
import pathlib
import resource
import subprocess
import unittest

INPUT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"]) / "input"
MACHINES = sorted((INPUT / "machines").glob("*.ini"))
PAPER = INPUT / "mesh_tensorflow"
LARGEST = PAPER / "lm_4.90b.ini"
LANGUAGE_MODELS = {"0.14": "batch:32", "0.22": "batch:32", "0.37": "model:4,batch:8",
                   "0.67": "model:4,batch:8", "1.28": "model:8,batch:16",
                   "2.48": "batch:16,model:32", "4.90": "batch:16,model:32"}


def plan(deck, *settings):
    """What `tessera plan DECK --json` prints, and the processor seconds that it took."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    ran = subprocess.run([os.environ["TESSERA"], "plan", deck, "--json", *settings],
                         capture_output=True, text=True)
    if ran.returncode != 0:
        raise AssertionError(f"{deck} {settings}\n{ran.stderr}{ran.stdout}")
    return json.loads(ran.stdout), used() - before


class Plan(unittest.TestCase):
    def test_every_deck_takes_less_than_a_second(self):
        decks = sorted(deck for deck in INPUT.rglob("*.ini") if deck not in MACHINES)
        self.assertGreater(len(decks), 30)
        self.assertGreaterEqual(sum(deck.parent == PAPER for deck in decks), 17)
        for deck in decks:
            with self.subTest(deck.name):
                # Its mesh has as many stages as there are ranks.
                ranks = ["--plan.ranks=2"] if deck.name == "pipeline.ini" else []
                found, seconds = plan(deck, *ranks)
                for part in [found["servers"], found["group"]] if "servers" in found else [found]:
                    self.assertGreater(part["parameters"], 0)
                    self.assertGreater(part["bytes_per_rank"]["total"], 0)
                self.assertLess(seconds, 1)

    def test_the_language_models_of_the_paper(self):
        d_ff, heads, d = 4096, 4, 1024
        for size, mesh in LANGUAGE_MODELS.items():
            with self.subTest(size):
                found, _ = plan(PAPER / f"lm_{size}b.ini")
                norms_and_positions = (13 + 256) * d
                self.assertEqual(found["parameters"], 6 * (2 * d * d_ff + 4 * d * heads * 256)
                                 + 2 * 32768 * d + norms_and_positions)
                self.assertEqual(found["mesh"], mesh)
            d_ff, heads = 2 * d_ff, 2 * heads

    def test_many_ranks_take_no_longer_than_few(self):
        # The best of some, as others use the machine, too.
        seconds = [min(plan(LARGEST, f"--mesh.shape={mesh}")[1] for _ in range(5))
                   for mesh in ("batch:2,model:4", "batch:16,model:32", "batch:128,model:128")]
        self.assertLess(max(seconds), 1.5 * seconds[0] + 0.02, seconds)

    def test_every_machine_predicts(self):
        self.assertGreaterEqual(len(MACHINES), 3)
        steps = {}
        for machine in MACHINES:
            with self.subTest(machine.name):
                found, _ = plan(LARGEST, f"--plan.machine={machine}")
                self.assertGreater(found["predicted_step_s"], 0)
                steps[machine.name] = found["predicted_step_s"]
        self.assertLess(steps["h100_node.ini"], steps["cpu_cluster.ini"])

    def test_more_ranks_classify_more_images_a_second(self):
        rates = [plan(INPUT / "replicator" / "resnet50.ini", f"--plan.ranks={ranks}",
                      "--data.batch=8192", f"--plan.machine={INPUT / 'machines' / 'h100_node.ini'}"
                      )[0]["predicted_images_per_s"] for ranks in (8, 64, 512, 1024)]
        print("images/s on 8, 64, 512 and 1,024 ranks:", rates)
        self.assertGreater(rates[0], 0)
        for few, many, times in zip(rates, rates[1:], (8, 8, 2)):  # times as many ranks
            self.assertTrue(few < many <= times * few, rates)

    def test_the_search_is_no_worse_than_the_published_layout(self):
        for deck in sorted([*PAPER.glob("lm_*.ini"), *PAPER.glob("tr_*.ini")]):
            with self.subTest(deck.name):
                published, _ = plan(deck)
                found, _ = plan(deck, "--search", "--plan.time_limit=3")
                self.assertLessEqual(found["best"]["predicted_step_s"],
                                     published["predicted_step_s"] * (1 + 1e-9))

    def test_the_largest_model_on_512_ranks_of_8_gib(self):
        found, seconds = plan(LARGEST, "--search", "--plan.ranks=512", "--plan.memory_limit=8GiB",
                              "--plan.time_limit=10")
        self.assertLess(seconds, 20)
        self.assertLessEqual(found["best"]["bytes_per_rank"]["total"], 8 * 2**30)
        self.assertLessEqual(len(found["candidates"]), 5)


if __name__ == "__main__":
    unittest.main()
