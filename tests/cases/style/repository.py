# SPDX-License-Identifier: BSD-3-Clause
"""What the style checks have in common: the files of the repository and how findings are told."""

import pathlib
import subprocess
import sys


def files(root):
    """All files that are or could be committed, relative to `root`; build folders are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True).stdout
    paths = [pathlib.Path(name) for name in sorted(set(listed.split("\0"))) if name]
    return [path for path in paths if (root / path).is_file()]


def code_files(root):
    """The C++ files, generated ones' templates included."""
    return [p for p in files(root) if p.suffix in {".hpp", ".cpp"} or p.name.endswith(".cpp.in")]


def report(findings, checked):
    """Prints the findings and ends the program: 1 if there are any or if nothing was looked at."""
    for finding in findings:
        print(finding)
    print(f"{checked} files checked, {len(findings)} findings")
    sys.exit(1 if findings or checked == 0 else 0)
