# SPDX-License-Identifier: BSD-3-Clause
"""Runs the Python examples of src/io/CHECKPOINT.md, which are the README's, too, on a checkpoint that two
ranks saved."""
import os
import re
import subprocess
import sys
import tempfile

try:
    import h5py  # noqa: F401  (what the examples need)
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED: {missing}; tools/test installs what the tests need")
    sys.exit(77)


def examples(page):
    with open(os.path.join(os.environ["TESSERA_SOURCE_DIR"], page), encoding="utf-8") as page:
        return re.findall(r"```python\n(.*?)```", page.read(), re.DOTALL)


def run(code, *arguments):
    return subprocess.run([sys.executable, "-W", "error", "-c", code, *arguments], check=True,
                          capture_output=True, text=True).stdout


def main(saver):
    by_name, by_digest = examples("src/io/CHECKPOINT.md")
    assert examples("README.md") == [by_name, by_digest]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.environ["MPIEXEC"], "-n", "2", saver, folder, "5", "1", "1"], check=True)
        file = os.path.join(folder, "checkpoints", "latest")
        text = run(by_name, file, "embedding", "block/both")
        assert "step 5" in text, text
        assert "embedding {'vocab': 11, 'd_model': 6} f32" in text, text
        assert "block/both {'d_model': 6, 'd_ff': 13} bf16" in text, text

        lines = run(by_digest, file).splitlines()
        assert len(lines) == 12 and all(line.endswith(" whole") for line in lines), lines
        with h5py.File(file, "r") as index:
            offset = index["variables/large2"].id.get_offset()
        with open(file, "r+b") as bytes_:
            bytes_.seek(offset + 4321)
            old = bytes_.read(1)
            bytes_.seek(offset + 4321)
            bytes_.write(bytes([old[0] ^ 2]))
        damaged = [line for line in run(by_digest, file).splitlines() if "DAMAGED" in line]
        assert damaged == ["variables/large2 DAMAGED"], damaged


if __name__ == "__main__":
    main(sys.argv[1])
