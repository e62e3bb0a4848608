"""Make the corpus of stored runs in tests/corpus/, which tests/test_corpus.py has judged again.

    python benchmarks/corpus.py                       # make what build/corpus lacks, pack all of it, pin it
    python benchmarks/corpus.py --only good-killed    # make these runs anew (names, or beginnings of names)
    python benchmarks/corpus.py --pack                # make none: pack and pin what lies in build/corpus
    python benchmarks/corpus.py --pin                 # only write down what analyze says of the stored runs now

`corpus_table.py` lists the runs: a job, what is done to it, the codes that must come of it. Most are judged by every
check there is. The maker keeps whole runs in build/corpus. What goes into the repository is what `analyze` reads: the
events, `run.json`, the names of the checks, the journal of the storage without its bytes. The names of this machine
and of its directories are replaced. References that several runs share are stored once.

`--pin` after a change of the analysis is a statement: each line that `git diff tests/corpus/expected` shows is meant.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import shutil
import socket
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from corpus_table import ENTRIES, GOOD, Entry  # noqa: E402

from chaoskit import Job, checks  # noqa: E402
from chaoskit.analysis.reference.reference import Reference  # noqa: E402
from chaoskit.engine.run_store import Store  # noqa: E402
from chaoskit.engine.runner import Runner  # noqa: E402
from tests import stored_corpus  # noqa: E402

WORK = ROOT / "build" / "corpus"
#: Agents meet again soon; with torch 2.13 one that joins later waits in vain without the variable.
MEETING = "join_timeout=120,last_call_timeout=1,keep_alive_interval=1"
UNSHARED = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
#: What only launching rests on, and what is large: kept as an event, so that none is missing, but empty.
EMPTIED = {"modules": "names", "sources": "files"}
#: What the bundled experiments claim.
USUAL = (
    "completed", "resumed_from_last_valid", "state_restored", "same_data", "checkpoints_faithful",
    "matches_reference", "stays_finite", "no_orphans", "no_checkpoint_lost",
)  # fmt: skip
#: Stored runs that are made of others, as accidents make them.
DAMAGED = {
    "damaged-no-reference": "gallery-rng-missing",
    "damaged-record": "good-killed",
    "damaged-unfinished": "gallery-ema-reset",
}


class SharedReference(Runner):
    """A runner whose runs are judged by the reference of another job: the good trainer's."""

    judge_by: Job | None = None

    def reference(self, job: Job) -> Reference:
        """The reference of `judge_by`, where it is set."""
        return super().reference(self.judge_by or job)


def every_check() -> list[checks.Check]:
    """Each check as it is by default, and some with limits."""
    asked: dict[str, Mapping[str, Any]] = {"recovered_within": {"seconds": 60.0, "steps": 4}}
    made = [make(**asked.get(name, {})) for name, make in checks.REGISTRY.items()]
    return [
        *made,
        checks.recovered_within(seconds=0.01),
        checks.detected_within(steps=0),
        checks.returned_to_reference(within=5, band=0.05),
        checks.matches_reference(band=0.05),
        checks.matches_reference(rtol=0.05),
        checks.rolled_back_cleanly(policy="retried"),
        checks.rolled_back_cleanly(policy="skipped"),
        checks.rolled_back_cleanly(policy="update-skipped"),
        checks.ridden_out(faults=(0,)),
        checks.disk_use_bounded(margin=3.0),
    ]


def job_of(entry: Entry, *, reference: bool = False) -> Job:
    """The job of a run, or the one whose reference it is judged by."""
    options: dict[str, Any] = {"cwd": str(ROOT), "timeout": 60.0 if entry.nodes == 1 else 150.0, **entry.job}
    args = ["--out", "{out}", *(entry.shared if reference else entry.args)]
    if entry.script.startswith("examples/"):
        args = args[1:]
    if entry.nodes != 1:
        options.update(nnodes=entry.nodes, nproc_per_node=1)
    if ":" in str(entry.nodes):
        options.update(max_restarts=5, rdzv_conf=MEETING, env=UNSHARED)
    if entry.script:
        return Job(str(ROOT / entry.script), args, **options)
    if reference:
        options["timeout"] = 240.0
        options.pop("relaunches", None)
    return Job(GOOD if reference else entry.module, args, module=True, **options)


def make(entry: Entry, store: Store) -> None:
    """Carry out one run and judge it; raises RuntimeError where it does not show what it is there for."""
    environment = "local" if entry.nodes == 1 else "netns"
    runner = SharedReference(store, environment=environment, experiment=entry.name, launch="warm")
    runner.judge_by = None if entry.own else job_of(entry, reference=True)
    run = runner.run(job_of(entry), *entry.faults, storage=entry.storage)
    verdicts = run.judge(*every_check())
    codes = sorted({code for verdict in verdicts for code in verdict.codes})
    missing = set(entry.expect) - set(codes)
    place = WORK / "made" / entry.name
    if missing:
        raise RuntimeError(
            f"{entry.name}: lacks {', '.join(sorted(missing))}; it gives {', '.join(codes)}: {run.dir}"
        )
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(run.dir / "out", ignore_errors=True)
    run.dir.rename(place)


def pack() -> None:
    """Put all runs that were made into the archives, and say how large they are."""
    stored_corpus.CORPUS.mkdir(exist_ok=True)
    for archive in sorted({entry.archive for entry in ENTRIES}):
        content: dict[str, bytes] = {}
        for entry in ENTRIES:
            if entry.archive == archive and (WORK / "made" / entry.name).is_dir():
                content.update(files_of(entry, WORK / "made" / entry.name))
        if content and archive == "trainer":
            content.update(damaged(content))
        if content:
            packed = lzma.compress(tar_of(content), preset=9 | lzma.PRESET_EXTREME)
            (stored_corpus.CORPUS / f"{archive}.tar.xz").write_bytes(packed)
            print(f"{archive}: {len(content)} files, {len(packed) / 1024:.0f} KiB")


def files_of(entry: Entry, run: Path) -> Iterator[tuple[str, bytes]]:
    """What analyze reads of a run, by its place in the archive."""
    name = entry.name
    told = json.loads((run / "run.json").read_text())
    id, told["id"] = told["id"], name

    def neutral(text: bytes) -> bytes:
        """Without the names of this machine."""
        return without_names(text).replace(f"/corpus/runs/{id}".encode(), f"/corpus/runs/{name}".encode())

    told["owner"] = {"pid": 1, "start": 0, "host": "host"}
    yield f"runs/{name}/run.json", neutral(json.dumps(told, indent=1).encode())
    judged = json.loads((run / "verdicts.json").read_text())
    judged["checks"] = [dict(check.to_json()) for check in every_check()]
    if entry.usual:
        judged["checks"] = [{"name": check} for check in USUAL]
    yield f"runs/{name}/verdicts.json", json.dumps({**judged, "verdicts": []}, indent=1).encode()
    for path in sorted((run / "events").glob("*.jsonl")):
        yield f"runs/{name}/events/{path.name}", neutral(record(path))
    if (run / "journal").is_dir():
        path = run / "journal" / "operations.jsonl"
        yield f"runs/{name}/journal/{path.name}", neutral(path.read_bytes())
    for path in sorted((run / "reference").glob("control-*/events/*.jsonl")):
        yield f"references/{told['reference']}/{path.relative_to(run / 'reference')}", without_names(record(path))


def record(path: Path) -> bytes:
    """The events of one process."""
    lines = []
    for line in path.read_text().splitlines(keepends=True):
        event = json.loads(line)
        if (key := EMPTIED.get(event["e"])) in event:
            line = json.dumps({**event, key: []}, separators=(",", ":")) + "\n"
        lines.append(line)
    return "".join(lines).encode()


def without_names(text: bytes) -> bytes:
    """Without the names of this machine and of its directories."""
    names = {str(WORK / "store"): "/corpus", str(ROOT): "/home/user/chaoskit", sys.base_prefix: "/usr"}
    for name, other in names.items():
        text = text.replace(name.encode(), other.encode())
    return text.replace(f'"{socket.gethostname()}"'.encode(), b'"host"')


def damaged(content: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Runs without their reference, with a damaged line, and one whose harness died before it judged."""
    for name, of in DAMAGED.items():
        own = {path: text for path, text in content.items() if path.startswith(f"runs/{of}/")}
        for path, text in own.items():
            file = path.removeprefix(f"runs/{of}/")
            if file == "run.json" and name.endswith("no-reference"):
                text = json.dumps({**json.loads(text), "reference": None}).encode()
            if file.startswith("events/rank-1") and name.endswith("record"):
                lines = text.splitlines(keepends=True)
                lines[5] = lines[5][:20] + b"\n"
                text = b"".join(lines)
            if name.endswith("unfinished"):
                if file == "verdicts.json":
                    continue
                if file == "run.json":
                    text = json.dumps({**json.loads(text), "status": "running"}).encode()
                if file == "events/harness.jsonl":
                    text = b"".join(text.splitlines(keepends=True)[:-2])
            yield f"runs/{name}/{file}", text


def tar_of(content: Mapping[str, bytes]) -> bytes:
    """The same bytes for the same content."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for path in sorted(content):
            entry = tarfile.TarInfo(path)
            entry.size = len(content[path])
            packed.addfile(entry, io.BytesIO(content[path]))
    return held.getvalue()


def pin() -> None:
    """Write down what analyze says of each run."""
    shutil.rmtree(stored_corpus.EXPECTED, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        for name, run in stored_corpus.unpack(Path(place)).items():
            stored_corpus.pin(name, stored_corpus.analyze(run))
    print(f"{len(list(stored_corpus.EXPECTED.iterdir()))} runs pinned")


def chosen(only: Iterable[str]) -> list[Entry]:
    """Those that are asked for by name; else those that were not made yet."""
    asked = list(only)
    if asked:
        return [entry for name in asked for entry in ENTRIES if entry.name.startswith(name)]
    return [entry for entry in ENTRIES if not (WORK / "made" / entry.name).is_dir()]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAMES", default="", help="make these runs, separated by commas")
    parser.add_argument("--pack", action="store_true", help="make nothing: pack what was made, and pin it")
    parser.add_argument("--pin", action="store_true", help="make and pack nothing: pin what is stored")
    parser.add_argument("--make", action="store_true", help="pack and pin nothing")
    args = parser.parse_args()
    failed = 0
    if not args.pin and not args.pack:
        store = Store(WORK / "store")
        for entry in chosen(name for name in args.only.split(",") if name):
            begun = time.monotonic()
            try:
                make(entry, store)
            except Exception:
                failed += 1
                traceback.print_exc()
            print(f"{entry.name}: {time.monotonic() - begun:.1f} s", flush=True)
    if not args.pin and not args.make:
        pack()
    if not args.make:
        pin()
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
