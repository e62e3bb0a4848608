"""The section of `docs/reference/frameworks.md` on handlers of preemption notices. Made by `frameworks.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from handlers_examples import Finding, Handler, Measurement

TITLE = "Handlers of preemption notices"
HEAD = """\
This table shows what handlers of other projects make of a [notice of preemption](../how-to/preemption.md)
([examples/handlers/](../../examples/handlers/)). Each job is given notice in the middle of its second epoch. At the
end of the grace its node is taken away, unless the notice is false. *Saved after* is the time from the notice to the
settled checkpoint, and *grace needed* the grace that would just have sufficed, both in seconds. `–`: there is no such
number. The times are those of one run on a small machine, with tiny models. `python benchmarks/handlers.py` measures
all of them again."""


def section(found: Mapping[str, Any], every: Mapping[str, Handler]) -> Iterator[str]:
    """Its lines, of what was measured (see `amiss` for what is wrong with it)."""
    yield from (f"## {TITLE}", "", HEAD, "")
    yield "| handler | notice | experiment | saved after | grace needed | steps lost | verdict | codes |"
    yield "|---|---|---|--:|--:|--:|---|---|"
    for one in every.values():
        for what in one.measurement:
            answers = _answers(found, one, what)
            yield from (_line(one, what, finding, answers.get(finding.experiment)) for finding in what.finding)
    for one in every.values():
        yield from ("", f"### {one.title}", "", one.what, "", _provenance(found, one))
        for what in one.measurement:
            yield from ("", f"**{what.title}**{f' ({what.needs})' if what.needs else ''}:", "")
            yield from ("```sh", what.shown(), "```", "")
            answers = _answers(found, one, what)
            for finding in what.finding:
                yield from _explained(finding, answers.get(finding.experiment))


def amiss(found: Mapping[str, Any], every: Mapping[str, Handler]) -> list[str]:
    """What was not measured, has changed since, or is not as handler.toml says."""
    return [trouble for one in every.values() for what in one.measurement for trouble in _troubles(found, one, what)]


def _troubles(found: Mapping[str, Any], one: Handler, what: Measurement) -> Iterator[str]:
    name = f"handlers/{one.name} {what.name}"
    row = _row(found, one, what)
    if row is None:
        yield f"{name}: not measured"
        return
    if row["text"] != one.digest:
        yield f"{name}: a file has changed since it was measured"
    answers = {each["name"]: each for each in row["experiments"]}
    if unknown := [each for each in answers if each not in {finding.experiment for finding in what.finding}]:
        yield f"{name}: {', '.join(unknown)} has no [[measurement.finding]]"
    for finding in what.finding:
        answer = answers.get(finding.experiment)
        if answer is None:
            yield f"{name}: {finding.experiment} was not measured"
        elif answer["verdict"] not in ("pass", "fail"):
            yield f"{name}: {finding.experiment} is {answer['verdict']}: {' '.join(answer['sentences'])}"
        elif set(answer["codes"]) != set(finding.codes):
            told, written = (" ".join(codes) or "none" for codes in (answer["codes"], finding.codes))
            yield f"{name}: {finding.experiment} has the codes {told}; handler.toml has {written}"


def _row(found: Mapping[str, Any], one: Handler, what: Measurement) -> Mapping[str, Any] | None:
    rows = found.get("handlers", ())
    return next((row for row in rows if (row["handler"], row["measurement"]) == (one.name, what.name)), None)


def _answers(found: Mapping[str, Any], one: Handler, what: Measurement) -> dict[str, Mapping[str, Any]]:
    row = _row(found, one, what)
    return {each["name"]: each for each in row["experiments"]} if row else {}


def _line(one: Handler, what: Measurement, finding: Finding, answer: Mapping[str, Any] | None) -> str:
    name = f"[{one.title}](#{one.title.lower().replace(' ', '-').replace(',', '')}): {what.title}"
    start = f"| {name} | {finding.notice or what.notice} | `{finding.experiment}` |"
    if answer is None:
        return f"{start} | | | not measured | |"
    saved, needed = (_number(answer[key]) for key in ("saved_seconds", "sufficient_grace"))
    lost = "–" if answer["steps_lost"] is None or answer["resumed_from"] is None else str(answer["steps_lost"])
    return f"{start} {saved} | {needed} | {lost} | {answer['verdict']} | {_codes(answer['codes'])} |"


def _explained(finding: Finding, answer: Mapping[str, Any] | None) -> Iterator[str]:
    verdict = "not measured" if answer is None else _codes(answer["codes"]) or str(answer["verdict"])
    place = f" `{finding.where}`." if finding.where else ""
    yield f"- `{finding.experiment}`, {verdict}: {finding.does}{place}{f' {finding.why}' if finding.why else ''}"
    if set(finding.expected) != set(finding.codes):
        yield f"  Expected before the measurement: {_codes(finding.expected) or 'pass'}."
    if answer and answer["sentences"]:
        yield f"  chaoskit: {', '.join(f'“{sentence}”' for sentence in answer['sentences'])}"


def _provenance(found: Mapping[str, Any], one: Handler) -> str:
    files = ", ".join(f"[{name}](../../examples/handlers/{one.name}/{name})" for name in sorted(one.texts))
    told: dict[str, list[str]] = {}
    for what in one.measurement:
        if (row := _row(found, one, what)) is not None:
            packages = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
            days = told.setdefault(f"{packages}, Python {row['python']}", [])
            days.append(f"{row['when'][:10]} (chaoskit {row['chaoskit']})")
    each = (f"{versions}; {', '.join(dict.fromkeys(days))}" for versions, days in told.items())
    return f"{files}; measured with {' and '.join(each)}." if told else f"{files}; not measured."


def _codes(codes: Any) -> str:
    return " ".join(f"`{code}`" for code in codes)


def _number(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f}"
