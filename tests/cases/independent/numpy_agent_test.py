# SPDX-License-Identifier: BSD-3-Clause
"""The projection of a return's distribution (on a mesh that cuts rows and atoms) and n-step returns
against numpy programs, float64.

usage: numpy_agent_test.py AGENT_PROBE
"""

import subprocess
import sys

try:
    import numpy as np
except ImportError as error:
    print(f"SKIPPED: {error}; tests/requirements.txt names what this test needs")
    sys.exit(77)

RANDOM = np.random.default_rng(5)


def text_of(*parts):
    return " ".join(" ".join(f"{x:.17g}" for x in np.ravel(part)) for part in parts)


def project(atoms, low, high, rows):
    """Algorithm 1 of Bellemare, Dabney and Munos 2017, in which a moved atom that meets an atom
    gives it all."""
    p = RANDOM.dirichlet(np.full(atoms, 0.5), rows)
    reward = RANDOM.normal(0, high - low, rows)
    discount = RANDOM.choice([0, 0.5, 0.95, 1], rows)
    reward[0], discount[0] = 0, 1
    support = np.linspace(low, high, atoms)
    place = (np.clip(reward[:, None] + discount[:, None] * support, low, high) - low)
    place *= (atoms - 1) / (high - low)
    below, above = np.floor(place).astype(int), np.ceil(place).astype(int)
    result = np.zeros((rows, atoms))
    row = np.arange(rows)[:, None].repeat(atoms, 1)
    np.add.at(result, (row, below), p * np.where(below == above, 1, above - place))
    np.add.at(result, (row, above), p * (place - below))
    table = np.column_stack([p, reward, discount])
    return f"project {atoms} {low} {high} {rows} {text_of(table)}", result


def returns(n, gamma, steps, end_discount):
    rewards = RANDOM.normal(size=steps)
    padded = np.concatenate([rewards, np.zeros(n)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, n)[:steps]
    taken = np.minimum(n, steps - np.arange(steps))
    reaches_end = np.arange(steps) + taken == steps
    wanted = np.column_stack([windows @ gamma ** np.arange(n),
                              gamma ** taken * np.where(reaches_end, end_discount, 1.0),
                              np.arange(steps) + taken])
    return f"returns {n} {gamma} {steps} {end_discount} {text_of(rewards)}", wanted


def main():
    cases = [project(51, 0, 100, 9), project(2, -1, 1, 4), project(11, -3, 0.5, 7),
             returns(1, 0.99, 6, 1), returns(5, 0.9, 17, 0), returns(5, 1, 3, 1)]
    ran = subprocess.run([sys.argv[1]], input="\n".join(case[0] for case in cases) + "\n",
                         capture_output=True, text=True, check=True)
    for (given, wanted), line in zip(cases, ran.stdout.splitlines(), strict=True):
        name = " ".join(given.split()[:5])
        found = np.array(line.split(), float).reshape(wanted.shape)
        worst = np.abs(found - wanted).max()
        assert worst < 1e-12, f"{name}: differs by {worst}\n{found}\n{wanted}"
        print(f"{name}: within {worst:.1e}")


if __name__ == "__main__":
    main()
