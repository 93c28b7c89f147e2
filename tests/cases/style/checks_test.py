# SPDX-License-Identifier: BSD-3-Clause
"""The checks find what they are for: each rule against one text that breaks it and one that keeps it."""

import pathlib
import unittest

import layering
import text

MODULES = ["base", "config", "plan", "device", "kernels", "comm", "runtime", "io"]


def layers(path, line):
    return layering.check_file(pathlib.Path(path), line + "\n", MODULES)


class Layering(unittest.TestCase):
    def test_order_of_modules(self):
        self.assertEqual(layers("src/plan/a.cpp", '#include "tessera/base/error.hpp"'), [])
        self.assertEqual(layers("src/plan/a.cpp", '#include "plan/b.hpp"'), [])
        self.assertTrue(layers("src/plan/a.cpp", '#include "tessera/comm/mesh.hpp"'))
        self.assertTrue(layers("src/plan/a.cpp", '#include "comm/mesh.hpp"'))
        self.assertTrue(layers("include/tessera/base/a.hpp", '# include <tessera/io/file.hpp>'))
        self.assertTrue(layers("src/plan/a.cpp", '#include "nowhere/a.hpp"'))
        self.assertTrue(layers("src/nowhere/a.cpp", ""))

    def test_files_of_the_own_folder(self):
        here = lambda path: path == pathlib.Path("src/plan/b.hpp")
        check = lambda line: layering.check_file(pathlib.Path("src/plan/a.cpp"), line, MODULES, here)
        self.assertEqual(check('#include "b.hpp"'), [])
        self.assertTrue(check('#include "c.hpp"'))

    def test_outside_libraries_have_one_home(self):
        for header, home in [("Kokkos_Core.hpp", "device"), ("mpi.h", "comm"), ("hdf5.h", "io"),
                             ("boost/program_options.hpp", "config"), ("cblas.h", "kernels")]:
            line = f"#include <{header}>"
            self.assertEqual(layers(f"src/{home}/a.cpp", line), [], header)
            self.assertTrue(layers("src/plan/a.cpp", line), header)
            self.assertTrue(layers("src/runtime/a.cpp", line), header)

    def test_kokkos_version_is_asked_in_one_place(self):
        line = "#if KOKKOS_VERSION >= 40000"
        self.assertEqual(layers("src/device/a.cpp", line), [])
        self.assertTrue(layers("src/kernels/a.cpp", line))


def found(name, content):
    return text.check_file(pathlib.Path(name), content)


class Text(unittest.TestCase):
    licence = f"// {text.SPDX}\n"

    def test_licence_line(self):
        self.assertEqual(found("src/base/a.cpp", self.licence), [])
        self.assertEqual(found("tools/a", f"#!/bin/bash\n# {text.SPDX}\n"), [])
        self.assertTrue(found("src/base/a.cpp", "int a;\n"))
        self.assertTrue(found("tools/a", "#!/bin/bash\nls\n"))
        self.assertEqual(found("README.md", "words\n"), [])

    def test_length_and_white_space(self):
        self.assertEqual(found("a.cpp", self.licence + "\n" * (text.MAX_LINES - 1)), [])
        self.assertTrue(found("a.cpp", self.licence + "\n" * text.MAX_LINES))
        self.assertTrue(found("a.cpp", self.licence + "int a; \n"))
        self.assertTrue(found("a.cpp", self.licence + "\tint a;\n"))
        self.assertTrue(found("a.cpp", self.licence + "int a;"))
        self.assertTrue(found("a.hpp", self.licence + "int a;\n"))

    def test_paths_of_one_machine(self):
        self.assertTrue(found("README.md", "see /ho" + "me/me/data\n"))
        self.assertTrue(found("a.cpp", self.licence + 'auto p = "/wo' + 'rk/x";\n'))


if __name__ == "__main__":
    unittest.main()
