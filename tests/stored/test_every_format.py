"""Every stored file: a valid one is read. Of a damaged one a sentence names the file and the field, or the reader does
what its docstring says. Nothing else is raised, and no damage makes a suite or a run pass that did not.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from chaoskit import checks
from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import Case, judge
from chaoskit.engine import stored_json
from chaoskit.engine.run_store import Store
from chaoskit.errors import StoreError
from chaoskit.protocol import event_schema
from chaoskit.studies.nights import archive
from chaoskit.studies.nights.archive import Archive
from chaoskit.verdict import Outcome, merge
from tests.history_writer import Writer
from tests.mutations import CHECKS
from tests.stored.documents import Free, damaged
from tests.stored.formats import FORMATS, Format, Part, damaged_files
from tests.stored.holding import COUNTS, hold

SUITES = FORMATS[0]
INSERTED = (b"\0", b"\xff", b"[" * 2000, b"9" * 30, b'"')
every_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)


def written(parts: list[Part]) -> bytes:
    return b"".join(part.encoded() + b"\n" for part in parts)


@st.composite
def damaged_bytes(draw: st.DrawFn, parts: st.SearchStrategy[list[Part]]) -> tuple[list[Part], bytes, str]:
    """A file, and the same after damage that knows nothing of its types."""
    every = draw(parts)
    content = written(every)
    lines = content.splitlines(keepends=True)
    at, line = draw(st.integers(0, len(content) - 1)), draw(st.integers(0, len(lines) - 1))
    other = draw(st.integers(0, len(lines) - 1))
    what = draw(st.sampled_from(("cut", "flipped", "inserted", "line lost", "line twice", "swapped")))
    match what:
        case "cut":
            content = content[:at]
        case "flipped":
            content = content[:at] + bytes([content[at] ^ 1 << draw(st.integers(0, 7))]) + content[at + 1 :]
        case "inserted":
            content = content[:at] + draw(st.sampled_from(INSERTED)) + content[at:]
        case "line lost":
            content = b"".join(lines[:line] + lines[line + 1 :])
        case "line twice":
            content = b"".join(lines[: line + 1] + lines[line:])
        case _:
            lines[line], lines[other] = lines[other], lines[line]
            content = b"".join(lines)
    return every, content, what


class Held:
    """The properties of one format, below a directory."""

    def __init__(self, form: Format, root: Path) -> None:
        self.form, self.root, self.path = form, root, form.made_in(root)

    def is_read(self, parts: list[Part]) -> str:
        """Nothing is said of a valid file."""
        self.path.write_bytes(written(parts))
        said = self.form.says(self.root, self.path)
        assert said is None, said
        return "read"

    def is_said(self, drawn: Any) -> str:
        """One wrong place is said with its file, its line and its field, where the type says that it is wrong."""
        parts, damage, at = drawn
        self.path.write_bytes(written(parts))
        said = self.form.says(self.root, self.path)
        if damage.must_be_refused and (self.form.raises or self.form.told):
            assert said is not None, f"{damage.what} at {damage.name} was accepted"
            assert self.path.name in said or self.path.stem in said or self.path.parent.name in said, said
            assert damage.name == "it" or damage.name in said, f"{damage.name} not in {said}"
            assert self.path.suffix != ".jsonl" or at == 0 or f"line {at + 1}" in said, said
        return f"{damage.what}, {'accepted' if said is None else 'said'}"

    def stands(self, drawn: Any) -> str:
        """No bytes raise anything else."""
        _, content, what = drawn
        self.path.write_bytes(content)
        return f"{what}, {'read' if self.form.says(self.root, self.path) is None else 'said'}"


@every_format
def test_a_valid_file_is_read(form, tmp_path):
    hold(form.name, form.parts, Held(form, tmp_path).is_read, examples=8)


@every_format
def test_a_damaged_field_is_named_with_its_file(form, tmp_path):
    hold(form.name, damaged_files(form.parts), Held(form, tmp_path).is_said, examples=20)


@every_format
def test_damaged_bytes_raise_nothing_else(form, tmp_path):
    hold(form.name, damaged_bytes(form.parts), Held(form, tmp_path).stands, examples=15)


# No damage makes a pass.


def passes_no_more(root: Path, parts: list[Part], content: bytes) -> str:
    """A suite that is not a pass is refused after damage, or is no pass, or did not end."""
    held = Held(SUITES, root)
    held.path.write_bytes(written(parts))
    before = SUITES.read(root, held.path)
    if before.outcome is Outcome.PASS:
        return "a pass before"
    held.path.write_bytes(content)
    try:
        after = SUITES.read(root, held.path)
    except StoreError:
        return "refused"
    assert after.outcome is not Outcome.PASS or after.status == "running"
    return "no pass"


@st.composite
def suites_with_damage(draw: st.DrawFn) -> tuple[list[Part], bytes]:
    """A suite, and what is left of it after damage of its bytes or of one field."""
    parts = draw(SUITES.parts)
    if draw(st.booleans()):
        return parts, draw(damaged_bytes(st.just(parts)))[1]
    return parts, written(draw(damaged_files(st.just(parts)))[0])


def test_no_damage_makes_a_suite_pass(tmp_path):
    hold("suites", suites_with_damage(), lambda drawn: passes_no_more(tmp_path, *drawn), examples=60)


def lost_run() -> tuple[dict[str, list[dict[str, Any]]], Reference]:
    """The lines of the record of a run that lost its optimizer, by source, and its reference."""
    known: dict[str, Any] = {
        "samples": lambda rank, at: [f"{at}.{rank}.{i}" for i in range(2)],
        "content": lambda rank, at: {"model.a": f"a@{at}", "step": f"={at}"}, "steps": 6, "every": 2,
    }  # fmt: skip
    run = Writer(**known).launch().live(until=3).fault(evidence={"rank": 1, "launch": 0}).died()
    run.launch().load("step-2.pt").live(base=2, off={"optimizer": 0}, ends=True).exit(0).end()
    lines: dict[str, list[dict[str, Any]]] = {}
    for event in run.events:
        own = lines.setdefault(event.source, [])
        own.append({"i": len(own), "t": event.t, "e": event.kind, **event.data})
    return lines, Reference.of([Writer(**known).control().history() for _ in range(2)])


class LostRun:
    """Judges the record of a run that is not a pass, after damage of one line."""

    def __init__(self, root: Path) -> None:
        self.lines, self.reference = lost_run()
        self.events = root / "runs" / "x" / "events"
        self.events.mkdir(parents=True)
        assert self.outcome_with("", 0, {}) is Outcome.FAIL

    def outcome_with(self, source: str, at: int, line: Any) -> Outcome:
        """Of the run whose source has another line there."""
        for name, own in self.lines.items():
            told = [line if (name, number) == (source, at) else each for number, each in enumerate(own)]
            (self.events / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in told))
        every = [checks.REGISTRY[name]() for name in CHECKS]
        found = judge(Case(History.read(self.events.parent), self.reference), every)
        assert not [each.sentence for each in found if "the check itself failed" in each.sentence]
        return merge(each.outcome for each in found)

    def drawn(self) -> st.SearchStrategy[Any]:
        """A source, the number of one of its lines, and that line after damage of any place in it."""
        every = [(source, at) for source, own in self.lines.items() for at in range(len(own))]
        return st.sampled_from(every).flatmap(
            lambda one: st.tuples(st.just(one), damaged(Free, st.just(self.lines[one[0]][one[1]])))
        )

    def is_no_pass(self, drawn: Any) -> str:
        (source, at), damage = drawn
        outcome = self.outcome_with(source, at, damage.document)
        assert outcome is not Outcome.PASS, f"{source}, line {at + 1}: {damage.what} at {damage.name}"
        return f"{damage.what}, {outcome}"


def test_no_damaged_event_makes_a_run_pass(tmp_path):
    run = LostRun(tmp_path)
    hold("events", run.drawn(), run.is_no_pass, examples=40)


@pytest.mark.slow
def test_many_damaged_files(tmp_path):
    for number, form in enumerate(FORMATS):
        # A damaged file of another format beside it would be said as well.
        held = Held(form, tmp_path / f"format-{number}")
        hold(form.name, form.parts, held.is_read, examples=20)
        hold(form.name, damaged_files(form.parts), held.is_said, examples=80)
        hold(form.name, damaged_bytes(form.parts), held.stands, examples=40)
    hold("suites", suites_with_damage(), lambda drawn: passes_no_more(tmp_path, *drawn), examples=500)
    run = LostRun(tmp_path / "lost")
    hold("events", run.drawn(), run.is_no_pass, examples=300)
    print(f"\n{sum(COUNTS.values())} files", *(f"{count:>7}  {what}" for what, count in COUNTS.items()), sep="\n")


# Each property sees a reader that is broken on purpose.


def of(name: str) -> Format:
    return next(form for form in FORMATS if form.name == name)


def test_the_property_sees_a_reader_that_reads_anything(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_json, "conform", lambda kind, value: value)
    form = of("references/reference.json")
    with pytest.raises(AssertionError, match="was accepted"):
        hold("broken", damaged_files(form.parts), Held(form, tmp_path).is_said, examples=50, shrink=False)


def test_the_property_sees_a_reader_that_raises_something_else(tmp_path, monkeypatch):
    monkeypatch.setattr(event_schema, "_checks", lambda kind: ())
    form = of("runs/events/harness.jsonl")
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError, AssertionError)):
        hold("broken", damaged_files(form.parts), Held(form, tmp_path).is_said, examples=50, shrink=False)


def test_the_property_sees_a_reader_that_does_not_catch(tmp_path):
    form = replace(of("runs/putting-back.json"), raises=())
    with pytest.raises(ValueError):
        hold("broken", damaged_bytes(form.parts), Held(form, tmp_path).stands, examples=50, shrink=False)


def test_the_property_sees_a_reader_that_refuses_what_is_valid(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_damaged", lambda *_, **__: StoreError("x", path=""))
    monkeypatch.setattr(archive.Baseline, "from_json", lambda data: 1 / len(data["idle"]))
    form = of("suites/baselines.json")
    with pytest.raises((AssertionError, ZeroDivisionError, KeyError)):
        hold("broken", form.parts, Held(form, tmp_path).is_read, examples=20, shrink=False)


def test_the_property_sees_a_suite_that_loses_a_line(tmp_path, monkeypatch):
    def careless(self: Archive, content: bytes, path: Path) -> Any:
        return original(self, content.replace(b'"results"', b'"counted"'), path)

    original = Archive._of_lines
    monkeypatch.setattr(Archive, "_of_lines", careless)
    head = {"id": "x", "created": "", "command": [], "chaoskit": "", "machine": {}}
    lines = [{"e": "suite", "format": 1, **head}, {"e": "result", "name": "a", "verdict": "pass"},
             {"e": "result", "name": "b", "verdict": "fail"},
             {"e": "end", "status": "finished", "seconds": 1, "results": 2, "baselines": {}}]  # fmt: skip
    damage = damaged_bytes(st.just([Part(dict[str, Any], line) for line in lines]))
    with pytest.raises(AssertionError):
        hold("broken", damage, lambda drawn: passes_no_more(tmp_path, *drawn[:2]), examples=200, shrink=False)


def test_the_property_sees_a_record_whose_gaps_do_not_count(tmp_path, monkeypatch):
    run = LostRun(tmp_path)
    monkeypatch.setattr(LostRun, "outcome_with", lambda *_: Outcome.PASS)
    with pytest.raises(AssertionError, match="at "):
        hold("broken", run.drawn(), run.is_no_pass, examples=5, shrink=False)


def test_the_store_is_not_needed_to_name_a_run(tmp_path):
    """A run whose job is damaged is named with its field, as every other file is."""
    form = of("runs/run.json")
    path = form.made_in(tmp_path)
    path.write_text(json.dumps({"format": 1, **_run(), "job": {"nnodes": []}}))
    with pytest.raises(StoreError, match=r"run\.json is damaged \(job\.nnodes must be a whole number or a text"):
        form.read(tmp_path, path)
    assert Store(tmp_path).read(path.parent)["id"] == "x"


def _run() -> dict[str, Any]:
    texts = dict.fromkeys(("created", "status", "experiment", "environment"), "")
    return {**texts, "id": "x", "owner": {}, "schedule": [], "reference": None}
