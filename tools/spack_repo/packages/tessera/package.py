# SPDX-License-Identifier: BSD-3-Clause
"""Spack recipe of Tessera, for Spack 0.23 and 1.x."""

import os

try:  # Spack 1.x keeps the build systems beside its recipes ...
    from spack_repo.builtin.build_systems.cmake import CMakePackage
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:  # ... 0.23 gives them with all else.
    pass
from spack.package import *

# This recipe lives in the repository that it builds.
SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))


class Tessera(CMakePackage, CudaPackage):
    """Trains neural networks whose tensors are cut into tiles over a mesh of MPI ranks."""

    homepage = "file://" + SOURCE
    git = "file://" + SOURCE

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("openmp", default=False, description="Threads inside a rank, by Kokkos with OpenMP")
    variant("onednn", default=False, description="oneDNN's matrix product on the host")
    variant("tests", default=False, description="Build the tests")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("mpi")
    depends_on("hdf5@1.10.7:+mpi")
    depends_on("openblas")
    depends_on("boost@1.70:+program_options")
    depends_on("kokkos@3.4:")
    depends_on("libjpeg-turbo@2:")
    depends_on("kokkos@3.4:+openmp", when="+openmp")
    depends_on("onednn@2.6:", when="+onednn")
    depends_on("catch2@2.13:", when="+tests")

    conflicts("%gcc@:11", msg="Tessera is written in C++20: g++ 12 or newer")

    with when("+cuda"):
        # Hopper is known from Kokkos 4.0 on. The wrapper becomes the compiler of all files, and nvcc
        # does not get through the headers of older Boost.
        depends_on("kokkos@4.0:+cuda+cuda_lambda+wrapper")
        depends_on("boost@1.75:")
        for arch in CudaPackage.cuda_arch_values:
            depends_on(f"kokkos+cuda cuda_arch={arch}", when=f"cuda_arch={arch}")
        conflicts("cuda_arch=none", msg="Tell the GPU, for example cuda_arch=90")

    def cmake_args(self):
        args = [
            self.define_from_variant("TESSERA_ENABLE_TESTS", "tests"),
            self.define_from_variant("TESSERA_ONEDNN", "onednn"),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CXX_COMPILER", self.spec["kokkos"].kokkos_cxx))
        return args
