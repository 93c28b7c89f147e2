# SPDX-License-Identifier: BSD-3-Clause
"""Saves to a file system that is too small: a clean message on all ranks, the old checkpoint whole."""
import os
import shutil
import subprocess
import sys
import tempfile

TMPFS_MEGABYTES = 10


def in_tmpfs(folder, command):
    """Runs a command where `folder` is a small tmpfs of its own (in its own mount namespace)."""
    script = f"mount -t tmpfs -o size={TMPFS_MEGABYTES}m tmpfs '{folder}' && {command}"
    for own in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        if subprocess.run([*own, "sh", "-c", f"mount -t tmpfs tmpfs '{folder}'"], check=False,
                          capture_output=True).returncode == 0:
            return subprocess.run([*own, "sh", "-c", script], check=False, capture_output=True,
                                  text=True, timeout=120)
    print("SKIPPED: a tmpfs can't be mounted here (neither as root nor in a user namespace)")
    sys.exit(77)


def main(saver):
    if shutil.which("unshare") is None:
        print("SKIPPED: there is no unshare(1)")
        sys.exit(77)
    mpiexec = f"'{os.environ['MPIEXEC']}' -n 2 '{saver}'"
    with tempfile.TemporaryDirectory() as folder:
        # 4 MB fit once and, beside the first, twice, but not three times.
        result = in_tmpfs(folder, f"""
            {mpiexec} '{folder}' 1 3 4
            code=$?
            ls '{folder}/checkpoints'
            {mpiexec} '{folder}' 50 1 0 || exit 90
            ls '{folder}/checkpoints'
            exit $code""")
    print(result.stdout, result.stderr)
    assert result.returncode == 2, result.returncode
    before, after = result.stdout.split("saved 50")
    assert before.split() == ["saved", "1", "saved", "2", "latest", "step_00000001.h5",
                              "step_00000002.h5"], before
    for piece in ("step_00000003.h5 needs 4", "bytes (", "are free there", "checkpoint.keep"):
        assert piece in result.stderr, piece
    assert result.stderr.count("are free there") == 1
    assert "step_00000050.h5" in after  # a smaller one still fits: the run could go on


if __name__ == "__main__":
    main(sys.argv[1])
