"""Fuzz the readers of stored files, guided by their coverage: whatever the bytes are, only a StoreError may be raised.

    pip install atheris                                   # not among the dependencies
    python benchmarks/fuzz_readers.py build/fuzz -max_total_time=3600

The directory keeps the corpus. If it is empty, the files of a small store are its seeds. The first byte of an input
chooses the reader. Options that begin with a dash are those of libFuzzer, which prints the counts.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["chaoskit"]):
    from chaoskit.analysis.record.history import History
    from chaoskit.engine.run_store import JudgedRecord, RunRecord, Store
    from chaoskit.engine.runner import stored
    from chaoskit.engine.stored_json import read_json
    from chaoskit.errors import ChaoskitError
    from chaoskit.protocol import putting_back
    from chaoskit.protocol.io_journal import Journal, JournalError
    from chaoskit.studies.nights.archive import Archive
    from tests import mutations

#: The place of the input of each reader, and how it is read.
READERS: tuple[tuple[str, Callable[[Path, Path], object]], ...] = (
    ("suites/x.jsonl", lambda root, path: Archive(Store(root / "elsewhere")).read(path)),
    ("runs/x/events/rank-0.jsonl", lambda root, path: History.read(path.parents[1])),
    ("runs/x/events/harness.jsonl", lambda root, path: History.read(path.parents[1])),
    (
        "runs/x/run.json",
        lambda root, path: (read_json(path, RunRecord, missing=""), stored(path.parent, Store(root))),
    ),
    ("runs/x/verdicts.json", lambda root, path: read_json(path, JudgedRecord, missing="")),
    ("runs/x/putting-back.json", lambda root, path: putting_back.read(path.parent)),
    ("runs/x/journal/operations.jsonl", lambda root, path: Journal.read(path.parents[1])),
    (
        "suites/baselines/x.json",
        lambda root, path: Archive(Store(root))._baseline("x", root / "suites" / "s.jsonl"),
    ),
    (
        "suites/conditions/x.json",
        lambda root, path: Archive(Store(root))._conditions("x", root / "suites" / "s.jsonl"),
    ),
)


def main() -> None:
    """Seed the corpus, and fuzz."""
    root = Path(tempfile.mkdtemp(prefix="chaoskit-fuzz-"))
    for name, _ in READERS:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    corpus = [Path(word) for word in sys.argv[1:] if not word.startswith("-")]
    for directory in corpus[:1]:
        _seed(directory)

    def one(data: bytes) -> None:
        if not data:
            return
        name, read = READERS[data[0] % len(READERS)]
        path = root / name
        path.write_bytes(data[1:])
        try:
            with contextlib.suppress(ChaoskitError, JournalError):
                read(root, path)
        except ValueError:
            if "putting-back" not in name:  # it says so in its docstring
                raise
        finally:
            path.unlink()

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


def _seed(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        return
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        files = mutations.make_store(Path(place) / ".chaoskit")
        for number, (path, _) in enumerate(files):
            for kind, (name, _) in enumerate(READERS):
                alike = Path(name).suffix == path.suffix and Path(name).parent.name == path.parent.name
                if alike or Path(name).name == path.name:
                    (directory / f"seed-{number}-{kind}").write_bytes(bytes([kind]) + path.read_bytes())


if __name__ == "__main__":
    main()
