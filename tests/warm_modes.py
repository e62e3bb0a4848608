"""What cold controls of the programs in tests/trainers teach about launching them warm, written down once.

A warm launch that is demanded may use what an earlier reference of the same program learned. With these in a store no
test has to launch a cold control first. That warm launches equal cold ones is proved in test_launch_mode.py, without
them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from chaoskit.engine.run_store import FORMAT, Store
from tests.probe.started import MODULES

REPOSITORY = Path(__file__).resolve().parents[1]
TRAINERS = REPOSITORY / "tests" / "trainers"
#: notices.py trains differently when it is launched warm: its own controls have to show that.
_OTHERS = frozenset(["notices.py"])
#: The functions that hold the process group in a rank that started afresh, and which of their defaults.
_CAPTURES = (
    ("_all_gather_base", 0), ("all_gather", 0), ("all_reduce", 1), ("all_to_all", 0), ("all_to_all_single", 2),
    ("broadcast", 0), ("gather", 1), ("reduce", 1), ("reduce_scatter", 1), ("scatter", 1),
)  # fmt: skip
_PYTHON, _TORCHRUN = (sys.executable, "-m", "torch.distributed.run"), str(Path(sys.executable).parent / "torchrun")
#: The launchers as tests type them; `Job(...)` writes --max-restarts itself.
_LAUNCHERS = tuple(
    (*launcher, "--nproc-per-node", ranks, *restarts)
    for ranks in ("1", "2")
    for launcher, restarts in (
        *((launcher, ()) for launcher in (_PYTHON, (_TORCHRUN,), ("torchrun",))),
        *((_PYTHON, ("--max-restarts", number)) for number in "0235"),
    )
)


def teach(store: Store, *further: tuple[str, ...]) -> None:
    """Put the modes of all programs into the store, as references that no job has; `further` are command lines up to
    their scripts."""
    scripts = sorted(str(path) for path in TRAINERS.glob("*.py") if path.name not in _OTHERS)
    programs = [*((script,) for script in scripts), ("-m", "tinymodels")]
    kinds = (str(REPOSITORY / "tests" / "kinds" / "trainer.py"),)
    for number, words in enumerate((*launcher, *program) for launcher in _LAUNCHERS for program in programs):
        _write(store, f"taught-{number}", words, captures=True)
    plain = [*((*launcher, *kinds) for launcher in _LAUNCHERS), *((sys.executable, *one) for one in (*programs, kinds))]
    for number, words in enumerate((*plain, *further)):
        _write(store, f"taught-plain-{number}", words, captures=False)


def _write(store: Store, name: str, program: tuple[str, ...], *, captures: bool) -> None:
    held = [["torch.distributed.nn.functional", function, at] for function, at in _CAPTURES] if captures else []
    mode = {"warm": True, "modules": list(MODULES), "captures": held, "threads": "1"}
    directory = store.references / name
    if (directory / "reference.json").exists():
        return  # another worker was here
    directory.mkdir(parents=True, exist_ok=True)
    draft = directory / f".reference.json.{os.getpid()}"
    draft.write_text(json.dumps({"format": FORMAT, "seconds": 0.0, "program": list(program), "mode": mode}))
    draft.replace(directory / "reference.json")
