"""`begin_late`: gives a run that starts from a kept state its files, and the record of how they came about.

The record of the run in which the state was kept, up to that time, becomes that of launch 0, in separate files. Its
times and paths are adapted to the new run. So code that looks for earlier checkpoints finds them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chaoskit.analysis.record.harness_record import BEFORE_WINDOW
from chaoskit.engine.launches import files_below
from chaoskit.engine.windows.kept_outs import OutState
from chaoskit.errors import StoreError
from chaoskit.files.whole_files import replace_file
from chaoskit.protocol import json_lines
from chaoskit.protocol.stored_files import LONGEST_RECORD, read_stored

#: The file of the harness's part of that record.
BEFORE = "before.jsonl"


def begin_late(run_dir: Path, out: Path, kept: OutState, source: Path, *, steps: int) -> None:
    """Put a kept state into the empty `out`, and the record of the run in `source` up to that time into `run_dir`.
    Raises StoreError if either was altered since."""
    shift = kept.restore(out)
    until = kept.t + shift
    moved = (json.dumps(kept.out)[1:-1], json.dumps(str(out))[1:-1])
    for path in sorted((source / "events").glob("rank-0-0-*.jsonl")):
        replace_file(run_dir / "events" / path.name, b"".join(_moved(path, shift, until, moved)))
    own = (json.loads(line) for line in _moved(source / "events" / "harness.jsonl", shift, until, moved))
    harness = [record for record in own if record["e"] in ("launch.start", "launch.how")]
    window: dict[str, Any] = {"save": kept.save, "at": kept.at, "of": steps}
    ended: dict[str, Any] = {"launch": 0, "code": None, "cause": BEFORE_WINDOW, "survivors": []}
    files: dict[str, Any] = {"launch": 0, "files": [list(each) for each in files_below(out)]}
    for kind, fields in (("launch.end", ended), ("files", files), ("window", window)):
        harness.append({"i": 0, "t": until, "e": kind, **fields})
    lines = [json_lines.encode({**record, "i": number}) for number, record in enumerate(harness)]
    replace_file(run_dir / "events" / BEFORE, b"".join(lines))


def begin_at_first_step(run_dir: Path, *, steps: int) -> None:
    """Record that a run of a job with as many `steps` begins with the first one, and may end with its window."""
    window: dict[str, Any] = {"i": 0, "t": time.monotonic(), "e": "window", "save": 0, "at": 0, "of": steps}
    replace_file(run_dir / "events" / BEFORE, json_lines.encode(window))


#: A line whose only time is its own, as in nearly all lines: the text before the time, the time, and the text after it.
_PLAIN = re.compile(rb'^(\{"i":\d+,"t":)(-?\d+(?:\.\d+)?(?:e-?\d+)?)(,"e":"step",.*)$', re.DOTALL)


def _moved(path: Path, shift: float, until: float, moved: tuple[str, str]) -> Iterator[bytes]:
    """The lines of a file up to time `until`, with times and the job's directory adapted. The content of a checkpoint
    is unchanged: the job will read it."""
    old = moved[0].encode()
    content = read_stored(path, longest=LONGEST_RECORD)
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line:
            continue
        plain = _PLAIN.match(line) if old not in line else None
        if plain is not None:
            t = float(plain[2]) + shift
            if t > until:
                return
            yield plain[1] + repr(t).encode() + plain[3] + b"\n"
            continue
        record = _parsed(line, path, number)
        record["t"] += shift
        if record["t"] > until:
            return
        inside = {"content": record.pop("content")} if "content" in record else {}
        text = json.dumps(record)
        yield json_lines.encode({**(json.loads(text.replace(*moved)) if moved[0] in text else record), **inside})


def _parsed(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
        return {**record, "t": float(record["t"])}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StoreError(f"{path} is damaged at line {number}", path=str(path)) from error
