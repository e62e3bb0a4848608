"""What keeps `docs/reference/frameworks.md` from being true, and what the measured rows that it is made of say."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from frameworks_examples import COLUMNS, EXACT, VARIANTS, Example

#: What a job that takes a damaged checkpoint may lose by it: that hangs on where the damage fell.
SPOILT = frozenset(
    f"{what}-not-restored" for what in ("model", "buffers", "optimizer", "options", "rng", "scaler", "extra-state")
) | {
    "lr-schedule-off",
    "data-replayed",
    "data-skipped",
    "data-reordered",
    "nonfinite-accepted",
    "poisoned-checkpoint",
}
#: So many runs that are killed twice each fixed program must pass.
RUNS = 20


def troubles(found: Mapping[str, Any], every: Mapping[str, Example]) -> list[str]:
    """What keeps the page from being true: not measured, not explained, explained and not seen, not exact."""
    rows = {(row["example"], row["script"], row["variant"]): row for row in found["rows"]}
    repeats = {(row["example"], row["script"], row["variant"]): row for row in found["repeats"]}
    return [trouble for one in every.values() for trouble in _troubles(rows, repeats, one)]


def _troubles(rows: Mapping[Any, Any], repeats: Mapping[Any, Any], one: Example) -> Iterator[str]:
    for script in one.scripts:
        for variant in VARIANTS:
            what, row = f"{one.name}/{script} {variant}", rows.get((one.name, script, variant))
            if row is None:
                yield f"{what}: not measured"
                continue
            if row["text"] != one.digest(script):
                yield f"{what}: the script has changed since it was measured"
            for column in one.columns:
                yield from (f"{what}: {text}" for text in _unexplained(one, row, column))
    for fault in one.fault:
        scripts = ("train.py",) if fault.mended else one.scripts
        seen = {variant: _seen(rows, one, scripts, fault.experiments, variant) for variant in fault.variants}
        where = ", ".join(fault.experiments)
        for variant, codes in seen.items():
            if codes is not None and not codes & set(fault.codes):
                told = " ".join(fault.codes)
                yield f"{one.name}/train.py {variant}: {told} was not seen in {where}, as example.toml has it"
        if None not in seen.values():
            # Which of them shows hangs on what was struck, and differs from variant to variant.
            unseen = set(fault.codes).difference(*filter(None, seen.values()))
            if len(unseen) < len(set(fault.codes)):
                yield from (
                    f"{one.name}: {code} was not seen in {where} in any variant" for code in sorted(unseen)
                )
    if "exact.py" in one.scripts and not one.change:
        yield f"{one.name}: there is an exact.py, and example.toml has no 'change' that says what it changes"
    if "exact.py" in one.scripts and not diff(one):
        yield f"{one.name}: exact.py is train.py"
    runs = [repeats[key] for v in VARIANTS if (key := (one.name, one.fixed, v)) in repeats]
    runs = [row for row in runs if row["text"] == one.digest(one.fixed)]
    if not one.unfixable:
        bad = [
            f"{row['variant']} {row['verdicts']} {row['codes']}"
            for row in runs
            if set(row["verdicts"]) != {"pass"}
        ]
        yield from (f"{one.name}/{one.fixed}: of the further runs not all passed: {text}" for text in bad)
        if (count := sum(row["runs"] for row in runs)) < RUNS:
            yield f"{one.name}/{one.fixed}: {count} further runs, {RUNS} are wanted (--repeat {RUNS})"


def _seen(
    rows: Mapping[Any, Any], one: Example, scripts: Iterable[str], columns: Sequence[str], variant: str
) -> set[str] | None:
    """The codes of these scripts in these columns; None where one of them was not measured."""
    own = [rows.get((one.name, script, variant)) for script in scripts]
    if any(
        row is None or any(column in one.columns and not answers_of(row, column) for column in columns)
        for row in own
    ):
        return None
    return {code for row in own if row is not None for column in columns for code in codes_of(row, column)}


def _unexplained(one: Example, row: Mapping[str, Any], column: str) -> Iterator[str]:
    script, variant = row["script"], row["variant"]
    answers = answers_of(row, column)
    if not answers:
        yield f"{column} was not measured"

    def told(code: str) -> bool:
        named = variant if script == "train.py" else None
        return any(fault.covers(column, code, named) for fault in one.fault)

    for name, answer in answers.items():
        taken = "corrupt-accepted" in answer["codes"] and told("corrupt-accepted")
        for code in answer["codes"]:
            if not told(code) and not (taken and code in SPOILT):
                yield f"{code} in {column} ({name}) has no [[fault]]"
        if answer["verdict"] == "fail" and not answer["codes"]:
            yield f"{column} ({name}) failed with no code: {' '.join(answer['sentences'])}"
        if answer["verdict"] == "inconclusive":
            yield f"{column} ({name}) is inconclusive: {' '.join(answer['sentences'])}"
    if column in EXACT and answers and not _passed(row, column) and script == one.fixed and not one.unfixable:
        yield f"{column} does not pass: it is to be exact, or example.toml has an 'unfixable' that says why not"


def exact(row: Mapping[str, Any] | None) -> bool:
    """Whether everything passed that has to."""
    return row is not None and all(_passed(row, column) for column in EXACT)


def _passed(row: Mapping[str, Any], column: str) -> bool:
    """A program that was seen to begin one epoch only has no boundary to be killed at."""
    verdict = worst(answers_of(row, column))
    return verdict == "pass" or (column == "boundary" and verdict == "skipped")


def diff(one: Example) -> str:
    """From `train.py` to `exact.py`."""
    texts = (one.texts[name].splitlines() for name in ("train.py", "exact.py"))
    return "\n".join(difflib.unified_diff(*texts, "train.py", "exact.py", n=2, lineterm=""))


def exact_everywhere(rows: Mapping[Any, Any], one: Example, script: str) -> bool:
    return all(exact(rows.get((one.name, script, variant))) for variant in VARIANTS)


def measured_everywhere(rows: Mapping[Any, Any], one: Example) -> bool:
    """Whether what has to pass was measured, of each of its scripts in each variant."""
    wanted = [rows.get((one.name, script, variant)) for script in one.scripts for variant in VARIANTS]
    return all(row is not None and all(answers_of(row, column) for column in EXACT) for row in wanted)


def answers_of(row: Mapping[str, Any], column: str) -> dict[str, Any]:
    """Those of the experiments behind a column."""
    names = tuple(f"test_{name}" for name in COLUMNS[column])
    return {name: a for name, a in row["answers"].items() if name.partition("[")[0] in names}


def codes_of(row: Mapping[str, Any], column: str) -> list[str]:
    return list(dict.fromkeys(code for answer in answers_of(row, column).values() for code in answer["codes"]))


def worst(answers: Mapping[str, Any]) -> str:
    """The worst of them; none where there are none."""
    verdicts = [answer["verdict"] for answer in answers.values()]
    return next((word for word in ("fail", "inconclusive", "pass", "skipped") if word in verdicts), "none")
