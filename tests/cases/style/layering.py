# SPDX-License-Identifier: BSD-3-Clause
"""A module includes only modules above it, and each outside library has its one home.

usage: layering.py ROOT MODULE… (the modules in layering order)
"""

import pathlib
import re
import sys

import repository

LAST_PURE = "plan"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# Headers of outside libraries and the modules that may include them.
HOMES = [
    (re.compile(r"^Kokkos_|^KokkosBlas"), {"device", "kernels"}),
    (re.compile(r"^(cuda|cublas|hip)"), {"device", "kernels"}),
    (re.compile(r"^(cblas|dnnl|oneapi/dnnl)"), {"device", "kernels"}),
    (re.compile(r"^mpi(o|x|-ext)?\.h$"), {"comm", "io"}),
    (re.compile(r"^(hdf5|H5\w*)\.h$"), {"io"}),
    (re.compile(r"^boost/"), {"config"}),
    (re.compile(r"^(jpeglib|jerror|turbojpeg)\.h$"), {"data"}),
]
VERSION_MACRO = re.compile(r"\bKOKKOS_VERSION\w*")


def module_of(path):
    """`base` for include/tessera/base/x.hpp and src/base/x.cpp; None outside the modules."""
    parts = path.parts
    if parts[:2] == ("include", "tessera") and len(parts) > 3:
        return parts[2]
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return None


def check_file(path, text, modules, beside=lambda path: False):
    """Findings of one file; `modules` is the layering order, beside(p) says whether the file p is
    there, for includes that are relative to the file's own folder."""
    module = module_of(path)
    if module is None:
        return [] if path.suffix == ".txt" else [f"{path}: belongs to no module"]
    if module not in modules:
        return [f"{path}: '{module}' is not in the list of modules in CMakeLists.txt"]
    findings = []
    for quote, target in INCLUDE.findall(text):
        parts = target.split("/")
        name = parts[1] if parts[0] == "tessera" and len(parts) > 2 else parts[0]
        if quote == '"' and ".." not in parts and beside(path.parent / target):
            continue
        if quote == '"' or parts[0] == "tessera":
            if name not in modules:
                findings.append(f"{path}: includes {target}, which is in no module")
            elif modules.index(name) > modules.index(module):
                findings.append(f"{path}: '{module}' may not include '{name}' ({target})")
        for pattern, homes in HOMES:
            if pattern.search(target) and module not in homes:
                half = " (pure half)" if modules.index(module) <= modules.index(LAST_PURE) else ""
                findings.append(f"{path}: '{module}'{half} may not include {target}: "
                                f"only {', '.join(sorted(homes))}")
    if module != "device" and VERSION_MACRO.search(text):
        findings.append(f"{path}: only device/ may test KOKKOS_VERSION")
    return findings


def main():
    root, modules = pathlib.Path(sys.argv[1]), sys.argv[2:]
    findings = []
    paths = [p for p in repository.code_files(root)
             if p.parts[0] == "src" or p.parts[:2] == ("include", "tessera")]
    for path in paths:
        findings += check_file(path, (root / path).read_text(encoding="utf-8"), modules,
                               lambda path: (root / path).is_file())
    repository.report(findings, len(paths))


if __name__ == "__main__":
    main()
