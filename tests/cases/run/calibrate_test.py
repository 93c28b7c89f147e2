# SPDX-License-Identifier: BSD-3-Clause
"""`tessera calibrate` measures all that a prediction needs, on two ranks in well under a minute."""

import configparser

import runs

MACHINE = {"name", "cores", "ranks_per_node", "flops", "flops_bf16", "flops_f64", "memory_bandwidth",
           "call_seconds", "step_seconds", "latency", "bandwidth", "network_latency",
           "network_bandwidth", "measured_ranks"}
COLLECTIVES = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"}


def numbers(text):
    return [float(number) for number in text.split(",")]


def test_a_measured_machine_predicts():
    with runs.Place() as place:
        result = place.run("calibrate", ranks=2, file="machine.ini", expect=0, timeout=280)
        print(f"calibrated in {result.seconds:.0f} s")
        file = configparser.ConfigParser(inline_comment_prefixes="#")
        file.read(place.path / "machine.ini")
        runs.check(set(file.sections()) == {"machine", "alone", "together", "links"}, file.sections())
        machine = dict(file["machine"])
        runs.check(set(machine) == MACHINE and machine.pop("name").endswith(", measured"), machine)
        runs.check(float(machine.pop("flops_f64")) == 0, "f64 is not measured: half of f32")
        runs.check(all(float(value) > 0 for value in machine.values()), machine)
        runs.check(machine["ranks_per_node"] == machine["measured_ranks"] == "2", machine)
        runs.check(set(file["alone"]) == set(file["together"]), "alone and together differ in kinds")
        runs.check(set(file["links"]) == COLLECTIVES, list(file["links"]))
        for section in "alone", "together", "links":
            for kind, text in file[section].items():
                values = numbers(text)
                runs.check(min(values) >= 0 and max(values) > 0, section, kind, values)
        for dtype in "f32", "bf16":
            found = runs.json.loads(place.run(
                "plan", "--json", "--plan.machine=machine.ini", f"--train.dtype={dtype}",
                "--mesh.shape=batch:2,model:2", expect=0).out)
            predicted = found["predicted"]
            runs.check(predicted["machine"].endswith(", measured"), predicted)
            runs.check(found["predicted_step_s"] > predicted["communication_s"] > 0, found)
            missing = set(predicted["by_kernel"]) - set(file["alone"])
            runs.check(not missing, "a training does what was not measured:", missing)


if __name__ == "__main__":
    runs.main(dict(globals()))
