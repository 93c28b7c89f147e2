# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions (strided, dilated, grouped, transposed, over 1 to 3 dims) and poolings with their
gradients against JAX, the first dim of the picture cut over two ranks. CPU, float64.

usage: jax_ops_test.py CONV_PROBE
"""

import subprocess
import sys

import runs_beside_jax  # noqa: F401  first: it skips without JAX, and sets it up

import jax
import jax.numpy as jnp
import numpy as np

# kind, batch, groups, in, out, [(size, taps, stride, dilation, before, after)]
CASES = [
    ("conv", 2, 1, 3, 4, [(9, 3, 1, 1, 1, 1)]),
    ("conv", 2, 1, 2, 3, [(8, 3, 2, 1, 0, 1), (7, 2, 3, 1, 1, 0)]),
    ("conv", 1, 3, 2, 2, [(9, 3, 1, 2, 2, 2), (6, 3, 1, 1, 0, 0)]),
    ("conv", 2, 5, 1, 1, [(7, 3, 2, 1, 1, 1), (5, 3, 1, 1, 1, 1)]),
    ("conv", 1, 1, 2, 3, [(5, 2, 1, 1, 0, 1), (4, 3, 2, 1, 1, 1), (6, 3, 1, 2, 2, 1)]),
    ("transpose", 2, 1, 3, 2, [(8, 3, 2, 1, 1, 0), (9, 4, 3, 1, 1, 2)]),
    ("transpose", 1, 2, 2, 3, [(7, 3, 1, 2, 1, 1)]),
    ("max", 2, 1, 3, 1, [(9, 3, 2, 1, 1, 1), (6, 2, 2, 1, 0, 0)]),
    ("average", 2, 1, 3, 1, [(9, 3, 2, 1, 1, 1), (7, 3, 1, 1, 2, 0)]),
]


def wave(shape, step):
    return jnp.asarray(np.sin(step * np.arange(np.prod(shape)) + 1).reshape(shape))


class Case:
    def __init__(self, kind, batch, groups, inputs, outputs, space):
        self.kind, self.batch, self.groups = kind, batch, groups
        self.inputs, self.outputs = inputs, outputs
        self.sizes, self.taps, self.strides, self.dilations, before, after = zip(*space)
        self.padding = list(zip(before, after))
        self.text = " ".join(map(str, [kind, batch, groups, inputs, outputs, len(space)]
                                 + [n for dim in space for n in dim]))

    def pools(self):
        return self.kind in ("max", "average")

    def conv(self, x, w):
        """x [batch, space, groups, in], w [taps, groups, in, out]; JAX wants groups within outputs."""
        letters = "DHW"[-len(self.sizes):]
        w = jnp.moveaxis(w, -3, -2).reshape(*self.taps, self.inputs, self.groups * self.outputs)
        y = jax.lax.conv_general_dilated(
            x.reshape(*x.shape[:-2], self.groups * self.inputs), w, self.strides, self.padding,
            rhs_dilation=self.dilations, feature_group_count=self.groups,
            dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"))
        return y.reshape(*y.shape[:-1], self.groups, self.outputs)

    def pool(self, x):
        window, stride = (1, *self.taps, 1, 1), (1, *self.strides, 1, 1)
        padding = [(0, 0), *self.padding, (0, 0), (0, 0)]
        if self.kind == "max":
            return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, stride, padding)
        total = [jax.lax.reduce_window(a, 0.0, jax.lax.add, window, stride, padding)
                 for a in (x, jnp.ones_like(x))]
        return total[0] / total[1]

    def results(self):
        w = wave((*self.taps, self.groups, self.inputs, self.outputs), 2)
        x_shape = (self.batch, *self.sizes, self.groups, self.inputs)
        if self.pools():
            x, operands, function = wave(x_shape, 1), (), lambda x: self.pool(x)
        elif self.kind == "conv":
            x, operands, function = wave(x_shape, 1), (w,), self.conv
        else:
            # The transposed convolution is by definition the gradient of the convolution.
            y = jax.eval_shape(self.conv, jnp.zeros(x_shape), w)
            x, operands = wave(y.shape, 1), (w,)
            function = lambda x, w: jax.vjp(lambda a: self.conv(a, w), jnp.zeros(x_shape))[1](x)[0]
        y, back = jax.vjp(function, x, *operands)
        return [y, *back(wave(y.shape, 3))]


def main():
    cases = [Case(*case) for case in CASES]
    ran = subprocess.run([sys.argv[1]], input="\n".join(case.text for case in cases) + "\n",
                         capture_output=True, text=True, check=True)
    lines = iter(ran.stdout.splitlines())
    for case in cases:
        worst = 0.0
        for wanted in case.results():
            found = np.array(next(lines).split(), float)
            assert found.size == wanted.size, f"{case.text}: {found.size} numbers for {wanted.shape}"
            worst = max(worst, float(np.abs(found - np.ravel(wanted)).max()))
        assert worst < 1e-12, f"{case.text}: differs by {worst}"
        print(f"{case.text}: within {worst:.1e}")


if __name__ == "__main__":
    main()
