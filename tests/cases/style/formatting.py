# SPDX-License-Identifier: BSD-3-Clause
"""All C++ is as .clang-format has it. Versions of clang-format differ, so only one can judge.

usage: formatting.py ROOT
"""

import pathlib
import re
import shutil
import subprocess
import sys

import repository

VERSION = "14"


def main():
    root = pathlib.Path(sys.argv[1])
    tool = shutil.which(f"clang-format-{VERSION}") or shutil.which("clang-format")
    found = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if not re.search(rf"version {VERSION}\.", found):
        print(f"SKIPPED: needs clang-format {VERSION}, found: {found.strip() or 'none'}")
        sys.exit(77)
    paths = [path for path in repository.code_files(root) if path.suffix != ".in"]
    ran = subprocess.run([tool, "--dry-run", "-Werror", *map(str, paths)], cwd=root,
                         capture_output=True, text=True)
    findings = [line for line in ran.stderr.split("\n") if "error:" in line]
    if ran.returncode != 0 and not findings:
        findings = [ran.stderr]
    repository.report(findings, len(paths))


if __name__ == "__main__":
    main()
