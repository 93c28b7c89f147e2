# SPDX-License-Identifier: BSD-3-Clause
"""Spack itself resolves the environment and the variants. Skipped without SPACK_ROOT (a checkout of
Spack whose Python, SPACK_PYTHON, has clingo)."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
SPECS = ["tessera", "tessera+openmp+tests", "tessera+cuda+onednn cuda_arch=90"]


def main():
    home = os.environ.get("SPACK_ROOT")
    if not home:
        print("SKIPPED: set SPACK_ROOT to try the recipe with Spack")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "SPACK_USER_CONFIG_PATH": f"{folder}/config"}
        spack = f"{home}/bin/spack"
        subprocess.run([spack, "compiler", "find"], env=environment, check=True)
        for spec in SPECS:
            ran = subprocess.run([spack, "-e", str(ROOT), "spec", spec], env=environment,
                                 capture_output=True, text=True)
            print(ran.stdout, ran.stderr, sep="\n")
            if ran.returncode != 0 or "kokkos@" not in ran.stdout:
                return 1
            if "+cuda" in spec and "cuda_arch=90" not in ran.stdout.split("kokkos@")[1]:
                print("kokkos is not built for the GPU that was asked for")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
