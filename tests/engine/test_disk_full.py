"""A full disk under the store: one message that names it, exit code 5, and nothing left running."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

FILLS = """
import sys
with open(sys.argv[1] + "/big", "wb") as file:
    for _ in range(400):
        file.write(bytes(1 << 20))
"""


def run_on_small_disk(tmp_path, mebibytes, script):
    """`chaoskit run` with its store on a tmpfs of that size, in a mount namespace of its own."""
    place = tmp_path / "small"
    place.mkdir()
    program = tmp_path / "fills.py"
    program.write_text(script)
    mounted = 'mount -t tmpfs -o size="$1"m none "$2" && shift 2 && exec "$@"'
    return subprocess.run(
        [
            "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, "sh", str(mebibytes), str(place),
            sys.executable, "-m", "chaoskit", "run", "--dir", str(place / "store"), "-k", "control",
            "--", sys.executable, str(program), "{out}",
        ],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


@pytest.mark.parametrize(("mebibytes", "when"), [(16, "before the run"), (128, "during the run")])
def test_a_full_disk_is_named(tmp_path, mebibytes, when):
    result = run_on_small_disk(tmp_path, mebibytes, FILLS)
    said = result.stdout + result.stderr
    assert result.returncode == 5, (when, said)
    assert "is full" in said and str(tmp_path / "small" / "store") in said and "--dir" in said
    assert "Traceback" not in said
