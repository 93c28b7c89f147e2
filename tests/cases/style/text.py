# SPDX-License-Identifier: BSD-3-Clause
"""Rules for the text of files: licence line, length, white space, no path of one machine.

usage: text.py ROOT
"""

import os
import pathlib
import re
import sys

import repository

SPDX = "SPDX-License-Identifier: BSD-3-Clause"
MAX_LINES = 500
# Written in two parts so that this file does not find itself.
MACHINE_PATHS = re.compile("|".join(["/ho" + "me/", "/ro" + "ot/", "/wo" + "rk/", "/Us" + "ers/",
                                     r"/tm" + r"p/b(rief|uild)"]))
SUFFIXES = {".hpp", ".cpp", ".in", ".py", ".cmake", ".sbatch", ".ini", ".yaml", ".yml"}


def needs_licence(path, text):
    return path.suffix in SUFFIXES or path.name == "CMakeLists.txt" or text.startswith("#!")


def check_file(path, text):
    """Findings of one text file."""
    findings = []
    lines = text.split("\n")
    code = needs_licence(path, text)
    if code and SPDX not in lines[1 if text.startswith("#!") else 0]:
        findings.append(f"{path}:1: the first line (after #!) must be '{SPDX}'")
    if code and len(lines) - 1 > MAX_LINES:
        findings.append(f"{path}: {len(lines) - 1} lines, more than {MAX_LINES}: split it")
    if path.suffix == ".hpp" and "#pragma once" not in lines:
        findings.append(f"{path}: no #pragma once")
    if text and not text.endswith("\n"):
        findings.append(f"{path}:{len(lines)}: no newline at the end")
    for number, line in enumerate(lines, 1):
        if code and line != line.rstrip():
            findings.append(f"{path}:{number}: white space at the end")
        if code and "\t" in line:
            findings.append(f"{path}:{number}: a tab")
        if MACHINE_PATHS.search(line):
            findings.append(f"{path}:{number}: a path of one machine: {line.strip()[:80]}")
    return findings


def main():
    root = pathlib.Path(sys.argv[1])
    findings, checked = [], 0
    for path in repository.files(root):
        try:
            text = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        checked += 1
        findings += check_file(path, text)
        is_command = len(path.parts) == 2 and path.parts[0] == "tools" and path.suffix == ".py"
        if is_command and not (text.startswith("#!") and os.access(root / path, os.X_OK)):
            findings.append(f"{path}: people call it as a command: begin with #!, chmod +x")
    repository.report(findings, checked)


if __name__ == "__main__":
    main()
