# SPDX-License-Identifier: BSD-3-Clause
"""Each public header compiles alone and when included twice.

usage: headers.py ROOT JOBS FLAGS COMPILER FLAG…
FLAGS is a file with one more flag a line: the folders of the libraries.
"""

import concurrent.futures
import pathlib
import subprocess
import sys

import repository


def compile_alone(command, header):
    """The compiler's complaint, or an empty text."""
    source = f'#include "{header}"\n#include "{header}"\n'
    ran = subprocess.run([*command, "-fsyntax-only", "-x", "c++", "-"], input=source,
                         capture_output=True, text=True)
    return "" if ran.returncode == 0 else f"{header}:\n{ran.stderr}"


def main():
    root, jobs, flags = pathlib.Path(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    headers = [path.relative_to("include") for path in repository.files(root)
               if path.parts[0] == "include" and path.suffix == ".hpp"]
    # Our own folder must not be a system folder: that would silence the warnings.
    libraries = [flag for flag in flags.read_text().split("\n")
                 if flag and not flag.startswith(f"-isystem{root}/")
                 # The compiler's own folder, named again, would come too late for its headers.
                 and flag != "-isystem/usr/include"]
    command = [*sys.argv[4:], f"-I{root}/include", *libraries]
    if not compile_alone(command, "tessera/no_such_header.hpp"):
        sys.exit("the compiler accepts a header that does not exist")
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        findings = [told for told in pool.map(lambda h: compile_alone(command, h), headers) if told]
    repository.report(findings, len(headers))


if __name__ == "__main__":
    main()
