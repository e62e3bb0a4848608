"""What cold controls of the programs in tests/trainers teach about launching them warm, written down once.

A warm launch that is demanded may use what an earlier reference of the same program learned. With these in a store no
test has to launch a cold control first. That warm launches equal cold ones is proved in test_launch_mode.py, without
them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from chaoskit.engine.run_store import FORMAT, Store
from tests.probe.started import MODULES

REPOSITORY = Path(__file__).resolve().parents[1]
TRAINERS = REPOSITORY / "tests" / "trainers"
#: The functions that hold the process group in a rank that started afresh, and which of their defaults.
_CAPTURES = (
    ("_all_gather_base", 0), ("all_gather", 0), ("all_reduce", 1), ("all_to_all", 0), ("all_to_all_single", 2),
    ("broadcast", 0), ("gather", 1), ("reduce", 1), ("reduce_scatter", 1), ("scatter", 1),
)  # fmt: skip
_TORCHRUN = (
    (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
    (str(Path(sys.executable).parent / "torchrun"), "--nproc-per-node", "2"),
)


def teach(store: Store) -> None:
    """Put the modes of all programs into the store, as references that no job has."""
    # notices.py trains differently when it is launched warm: its own controls have to show that.
    scripts = sorted(str(path) for path in TRAINERS.glob("*.py") if path.name != "notices.py")
    for number, words in enumerate((*launcher, *program) for launcher in _TORCHRUN for program in [
        *((script,) for script in scripts), ("-m", "tinymodels")
    ]):  # fmt: skip
        _write(store, f"taught-{number}", words, threads="1", captures=True)
    for number, script in enumerate(scripts):
        _write(store, f"taught-alone-{number}", (sys.executable, script), threads=None, captures=False)


def _write(store: Store, name: str, program: tuple[str, ...], *, threads: str | None, captures: bool) -> None:
    held = [["torch.distributed.nn.functional", function, at] for function, at in _CAPTURES] if captures else []
    mode = {"warm": True, "modules": list(MODULES), "captures": held, "threads": threads}
    directory = store.references / name
    directory.mkdir(parents=True, exist_ok=True)
    content = {"format": FORMAT, "program": list(program), "mode": mode}
    (directory / "reference.json").write_text(json.dumps(content))
