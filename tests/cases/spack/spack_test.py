# SPDX-License-Identifier: BSD-3-Clause
"""The Spack environment, the recipe and the list of Debian packages agree with each other and with
the build. What only Spack can judge is in concretize_test.py."""

import ast
import os
import pathlib
import re
import unittest

import yaml

ROOT = pathlib.Path(os.environ["TESSERA_SOURCE_DIR"])
REPOSITORY = ROOT / "tools/spack_repo"
RECIPE = REPOSITORY / "packages/tessera/package.py"


def calls(name):
    """The constant positional arguments of all calls of `name` in the recipe."""
    return [[argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            for node in ast.walk(ast.parse(RECIPE.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id == name]


def package_of(spec):
    return re.match(r"[\w-]+", spec).group()


class Environment(unittest.TestCase):
    def setUp(self):
        self.environment = yaml.safe_load((ROOT / "spack.yaml").read_text())["spack"]

    def test_builds_this_folder_by_the_recipe_beside_it(self):
        self.assertEqual([package_of(spec) for spec in self.environment["specs"]], ["tessera"])
        self.assertEqual(self.environment["develop"]["tessera"]["path"], ".")
        for folder in self.environment["repos"]:
            description = yaml.safe_load((ROOT / folder / "repo.yaml").read_text())
            self.assertEqual(description["repo"]["namespace"], "tessera")

    def test_version_is_one_of_the_recipe(self):
        wanted = self.environment["specs"][0].split("@")[1]
        self.assertIn([wanted], calls("version"))


class Recipe(unittest.TestCase):
    def test_offers_the_variants(self):
        variants = {call[0] for call in calls("variant")}
        self.assertEqual(variants, {"openmp", "onednn", "tests"})
        bases = next(node.bases for node in ast.parse(RECIPE.read_text()).body
                     if isinstance(node, ast.ClassDef))
        self.assertEqual([base.id for base in bases], ["CMakePackage", "CudaPackage"])

    def test_options_exist_in_the_build(self):
        build = (ROOT / "CMakeLists.txt").read_text()
        options = re.findall(r'define_from_variant\("(\w+)"', RECIPE.read_text())
        self.assertTrue(options)
        for option in options:
            self.assertIn(f"option({option} ", build)

    def test_requires_what_the_build_requires(self):
        found = re.findall(r"^ *tessera_require\((\w+)",
                           (ROOT / "tools/cmake/TesseraDependencies.cmake").read_text(), re.M)
        package = {"Threads": None, "MPI": "mpi", "HDF5": "hdf5", "Boost": "boost",
                   "BLAS": "openblas", "Kokkos": "kokkos", "dnnl": "onednn",
                   "JPEG": "libjpeg-turbo", "CUDAToolkit": "kokkos"}  # kokkos+cuda brings it
        depended = {package_of(call[0]) for call in calls("depends_on") if call}
        for name in found:
            if package[name]:
                self.assertIn(package[name], depended, name)

    def test_debian_packages_cover_the_default_variants(self):
        debian = yaml.safe_load((ROOT / "tools/spack_debian.yaml").read_text())["packages"]
        for needed in ["cmake", "hdf5", "openblas", "boost", "kokkos", "catch2", "mpich",
                       "libjpeg-turbo"]:
            self.assertTrue(debian[needed]["externals"], needed)


if __name__ == "__main__":
    unittest.main()
