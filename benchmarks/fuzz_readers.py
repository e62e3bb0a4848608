"""Fuzz the readers of stored files, guided by their coverage: whatever the bytes are, a reader raises only what its
docstring says.

    pip install atheris                                   # not among the dependencies
    python benchmarks/fuzz_readers.py build/fuzz -max_total_time=3600

The directory keeps the corpus. If it is empty, the files of a small store are its seeds. The first byte of an input
chooses the reader, from `tests/stored/formats.py`. Every second mutation changes one value of the JSON, so that it
stays JSON; the others are those of libFuzzer. Options that begin with a dash are libFuzzer's, which prints the counts.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import tempfile
from pathlib import Path

import atheris

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["chaoskit"]):
    from chaoskit.analysis.record import step_lines
    from tests import mutations
    from tests.stored.formats import FORMATS


#: Of files that the small store does not have.
SEEDS = {
    "putting-back.json": (
        {"format": 1, "directory": "/x", "keep": {"positions": [4], "components": ["model", "rng.torch"]}},
        {
            "format": 1, "directory": "/x",
            "put_back": {
                "moment": "draw", "way": "flow", "digests": {"position-4-rank-0.pt": "ab"},
                "resumed": [{"launch": 1, "restart": 0, "position": 4, "ranks": {"0": ["model"]}}],
            },
        },
    ),
    "operations.jsonl": (
        {"format": 1},
        {"n": 0, "t": 0.5, "kind": "create", "path": "a", "file": 1, "mode": 420},
        {"n": 1, "t": 0.75, "kind": "rename", "path": "a", "file": 1, "to": "b", "replaced": 2},
    ),
    "reference.json": (
        {
            "format": 1, "digest": "x", "seconds": 1.5, "controls": 2, "files": [{"path": "/x.py", "size": 1}],
            "mode": {"warm": True, "modules": ["torch"], "captures": [["a", "b", 1]]}, "program": ["x.py"], "port": 1,
        },
    ),
    "kept.json": ({"format": 1, "positions": [4], "components": ["model"], "files": {"position-4-rank-0.pt": "a"}},),
    "cluster-objects.jsonl": (
        {"do": "intend", "resource": "pods", "namespace": "ours", "name": "a"},
        {"do": "made", "resource": "pods", "namespace": "ours", "name": "a", "uid": "b"},
        {"do": "absent", "resource": "pods", "namespace": "ours", "name": "c"}, {"do": "done"},
    ),
    "owner.json": ({"pid": 1, "start": 1, "host": "x", "boot": "x"},),
    "cgroups.json": (["/sys/fs/cgroup/chaoskit-x"],),
}  # fmt: skip


def main() -> None:
    """Seed the corpus, and fuzz."""
    step_lines.LEAST = 0  # the records are small, and are to be read as large ones are
    root = Path(tempfile.mkdtemp(prefix="chaoskit-fuzz-"))
    paths = [each.made_in(root) for each in FORMATS]
    for path in paths:
        if path.name in ("run.json", "verdicts.json"):
            (path.parent / "events").mkdir(exist_ok=True)
    corpus = [Path(word) for word in sys.argv[1:] if not word.startswith("-")]
    for directory in corpus[:1]:
        _seed(directory)

    def one(data: bytes) -> None:
        if not data:
            return
        number = data[0] % len(FORMATS)
        path = paths[number]
        path.write_bytes(data[1:])
        try:
            with contextlib.suppress(*FORMATS[number].raises):
                FORMATS[number].read(root, path)
        finally:
            path.unlink()

    atheris.Setup(sys.argv, one, custom_mutator=_mutated)
    atheris.Fuzz()


def _mutated(data: bytes, most: int, seed: int) -> bytes:
    """Change one value of one document, or, where that is not possible and every second time, some bytes."""
    draw = random.Random(seed)
    head, lines = data[:1], data[1:].split(b"\n") if Path(_place(data)).suffix == ".jsonl" else [data[1:]]
    at = draw.randrange(len(lines))
    try:
        changed = mutations.change_value(draw, lines[at].decode()) if draw.random() < 0.5 else None
    except (ValueError, RecursionError):
        changed = None
    if changed is None or len(changed[0]) + len(data) > most:
        return bytes(atheris.Mutate(data, most))
    lines[at] = changed[0].encode()
    return head + b"\n".join(lines)


def _place(data: bytes) -> str:
    return FORMATS[data[0] % len(FORMATS)].place if data else ""


def _seed(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        return
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        files = mutations.make_store(Path(place) / ".chaoskit")
        for kind, each in enumerate(FORMATS):
            own = [json.dumps(one).encode() for one in SEEDS.get(Path(each.place).name, ())]
            whole = [b"\n".join(own)] if each.place.endswith(".jsonl") else own
            for number, content in enumerate(whole):
                (directory / f"seed-own-{number}-{kind}").write_bytes(bytes([kind]) + content + b"\n")
        for number, (path, _) in enumerate(files):
            for kind, each in enumerate(FORMATS):
                wanted = Path(each.place)
                alike = wanted.suffix == path.suffix and wanted.parent.name == path.parent.name
                if alike or wanted.name == path.name:
                    (directory / f"seed-{number}-{kind}").write_bytes(bytes([kind]) + path.read_bytes())


if __name__ == "__main__":
    main()
