"""`docs/reference/frameworks.md`: what programs that we did not write resume exactly. Made by `frameworks.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from frameworks_examples import COLUMNS, EXACT, VARIANTS, Example, expression
from frameworks_troubles import (
    answers_of,
    codes_of,
    diff,
    exact,
    exact_everywhere,
    measured_everywhere,
    troubles,
    worst,
)
from handlers_examples import Handler
from handlers_page import amiss as amiss_of_handlers
from handlers_page import section as section_of_handlers

#: What a resume must bring back, by its name in the alignment; the last only where a program has it.
PARTS = {
    "model": "model",
    "buffers": "buffers",
    "optimizer": "optimizer",
    "lr": "LR",
    "scaler": "scaler",
    "rng": "RNG",
    "batch": "data",
    "ema": "average",
}
#: How a sentence names what was lost, where it is not by the words of the code.
WORDS = {
    "rng-not-restored": "RNG not restored",
    "lr-schedule-off": "LR off",
    "extra-state-not-restored": "is not what",
}
MARKS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}
HEAD = """\
<!-- Made by `make frameworks`, of examples/ and of what was measured (frameworks.json); never by hand. -->

# What resumes exactly today

This page measures trainers of other projects. Each one follows the documentation of its framework
([examples/](../../examples/)), and is measured without changes.
**{exact} of {total} programs resume exactly as they are in every variant; {fixed} more do with a change of a few lines,
which is printed here; {rest} do not{open}.**
*Exact* means proven: chaoskit compares an uninterrupted run with one that it killed in the middle of its second epoch,
one that it killed at a boundary of epochs, and one that it killed twice. All are bitwise equal: each loss, parameter,
moment of the optimizer, random stream and batch, at every step and on every rank.

Each program trains on two ranks for three epochs and saves in the middle and at the end of each epoch. The variants
are *plain*, with dropout, shuffling and accumulation; *augment*, which adds random augmentation in the data set; and
*workers*, which adds two loader workers. A word such as `rng-not-restored` is chaoskit's code for the loss
([codes](codes.md))."""

RESTORED = """\
This table shows the state of each part when the program takes its first step after the kill in the middle of the second
epoch. A number is the step of the uninterrupted run whose state the part has. **Bold** is wrong: another step than
expected, or *none* of the run. `any`: the part never changes, so it cannot be lost. `–`: the program has no such part.
The columns on the right show whether the run after each kill, and after each damage, was exact: ✓, ✗, `?` for
inconclusive, `–` for not applicable. The codes are in the section of each program."""


COSTS = """\
*Slowdown* is the duration of a step with the probe divided by its duration without: the median of all steps of both
ranks in neighbouring runs of `train.py`, each rank with one thread. The models are tiny, so a step consists mostly of
overhead. A step of a larger model costs the same milliseconds, except for the fingerprints, which grow with the model
(`python benchmarks/frameworks_overhead.py`)."""


def page(
    found: Mapping[str, Any],
    every: Mapping[str, Example],
    left: Iterable[Mapping[str, str]],
    handlers: Mapping[str, Handler],
) -> str:
    """`docs/reference/frameworks.md`."""
    rows = {(row["example"], row["script"], row["variant"]): row for row in found["rows"]}
    as_is = [one for one in every.values() if exact_everywhere(rows, one, "train.py")]
    fixed = [one for one in every.values() if one not in as_is and exact_everywhere(rows, one, one.fixed)]
    settled = [*as_is, *fixed]
    partly = [one for one in every.values() if one not in settled and not measured_everywhere(rows, one)]
    counts = {"exact": len(as_is), "fixed": len(fixed), "total": len(every)}
    rest = len(every) - len(settled) - len(partly)
    lines = [
        HEAD.format(**counts, rest=rest, open=f"; {len(partly)} are not measured completely" if partly else ""),
        "",
        "| program | " + " | ".join(VARIANTS) + " | shortest change | with the change |",
        "|---|" + "---|" * (len(VARIANTS) + 2),
        *(_summary(rows, found["repeats"], one) for one in every.values()),
        "",
        "## What each resume restores",
        "",
        RESTORED,
        "",
        *_restored(rows, every.values()),
    ]
    if costs := list(_costs(found.get("overhead", ()), every)):
        lines += ["", "## What the probe costs", "", COSTS, "", *costs]
    if handlers:
        lines += ["", *section_of_handlers(found, handlers)]
    for one in every.values():
        lines += ["", *_section(rows, found["repeats"], one)]
    if told := [f"- {one['title']}: {one['why']}" for one in left]:
        lines += ["", "## Left out", "", *told]
    if amiss := [*troubles(found, every), *amiss_of_handlers(found, handlers)]:
        lines += ["", "## Not explained", "", *(f"- {trouble}" for trouble in amiss)]
    return "\n".join([*lines, ""])


def _costs(kept: Iterable[Mapping[str, Any]], every: Mapping[str, Example]) -> Iterator[str]:
    """A line for each program of which it was measured, as it is."""
    told = {row["example"]: row for row in kept}
    shown = [(one, told[name]) for name, one in every.items() if name in told]
    shown = [(one, row) for one, row in shown if row["text"] == one.digest("train.py")]
    if shown:
        yield "| program | slowdown | step without the probe | cost of the probe | pairs of runs |"
        yield "|---|--:|--:|--:|--:|"
    for one, row in shown:
        numbers = f"{row['ratio']:.2f}× | {row['step_ms']:.1f} ms | {row['cost_ms']:.2f} ms | {row['rounds']}"
        yield f"| [{one.title}](#{_anchor(one.title)}) | {numbers} |"


def _said(answer: Mapping[str, Any]) -> str:
    codes = " ".join(f"`{code}`" for code in answer["codes"])
    return (codes or "fail") if answer["verdict"] == "fail" else f"{answer['verdict']} {codes}".strip()


def _cell(one: Example, row: Mapping[str, Any], column: str) -> str:
    """What came of a column."""
    if column in one.experiments_skipped:
        return "not run"
    answers = answers_of(row, column)
    said = {name.removeprefix("test_"): _said(answer) for name, answer in answers.items()}
    if not said:
        return "not measured"
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return "<br>".join(f"{name}: {text}" for name, text in said.items())


def _outcome(rows: Mapping[Any, Any], one: Example, script: str, variant: str) -> str:
    row = rows.get((one.name, script, variant))
    if row is None:
        return "not measured"
    codes = dict.fromkeys(code for column in EXACT for code in codes_of(row, column))
    if exact(row):
        return "exact"
    return " ".join(f"`{code}`" for code in codes) or worst(
        {name: answer for column in EXACT for name, answer in answers_of(row, column).items()}
    )


def _version(rows: Mapping[Any, Any], one: Example) -> str:
    """Of its package, as measured."""
    told = {row["versions"].get(one.package, "") for key, row in rows.items() if key[0] == one.name}
    return " and ".join(sorted(filter(None, told)))


def _summary(rows: Mapping[Any, Any], repeats: Sequence[Mapping[str, Any]], one: Example) -> str:
    version = f"{one.package} {_version(rows, one)}".strip()
    cells = [f"[{one.title}](#{_anchor(one.title)}), {version}"]
    cells += [_outcome(rows, one, "train.py", variant) for variant in VARIANTS]
    if one.fixed == "train.py":
        cells += [
            f"there is none: {one.unfixable}" if one.unfixable else "none needed",
            _repeated(repeats, one),
        ]
    else:
        outcomes = {variant: _outcome(rows, one, one.fixed, variant) for variant in VARIANTS}
        alike = next(iter(outcomes.values())) if len(set(outcomes.values())) == 1 else None
        told = alike or "; ".join(f"{variant}: {text}" for variant, text in outcomes.items())
        cells += [one.change, f"{told}{'; ' if _repeated(repeats, one) else ''}{_repeated(repeats, one)}"]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _repeated(repeats: Sequence[Mapping[str, Any]], one: Example) -> str:
    """How many of the further runs passed."""
    own = [row for row in repeats if (row["example"], row["script"]) == (one.name, one.fixed)]
    runs, passed = sum(row["runs"] for row in own), sum(row["verdicts"].get("pass", 0) for row in own)
    return f"{passed} of {runs} further runs passed" if runs else ""


def _restored(rows: Mapping[Any, Any], every: Iterable[Example]) -> Iterator[str]:
    """The table of what each part is found at, and of what followed."""
    told = {key: _resume(row) for key, row in rows.items()}
    parts = [name for name in PARTS if name != "ema" or any(name in cells for _, cells in told.values())]
    heads = ["program", "variant", "from step", *(PARTS[name] for name in parts), *list(COLUMNS)[1:]]
    yield f"| {' | '.join(heads)} |"
    yield "|---|---|" + ":-:|" * (len(heads) - 2)
    for one in every:
        for script in one.scripts:
            for variant in VARIANTS:
                if (row := rows.get((one.name, script, variant))) is None:
                    continue
                due, cells = told[one.name, script, variant]
                shown = [cells.get(part, "–") if due else "" for part in parts]
                marks = [MARKS.get(worst(answers_of(row, column)), "–") for column in list(COLUMNS)[1:]]
                name = f"[{one.title}](#{_anchor(one.title)}){'' if script == 'train.py' else ', changed'}"
                yield f"| {' | '.join([name, variant, due or 'it did not recover', *shown, *marks])} |"


def _resume(row: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The step that was due after the kill, and by part where it is, over all ranks."""
    later = [told for told in row["table"] if told["incarnation"] > 0]
    first = [told for told in later if told["incarnation"] == later[0]["incarnation"]]
    if not first:
        return "", {}
    cells: dict[str, str] = {}
    for part in PARTS:
        words = [_place(told["cells"].get(part), told["expected"]) for told in first]
        if set(words) != {None}:
            shown = [word or "–" for word in words]
            cells[part] = shown[0] if len(set(shown)) == 1 else " / ".join(shown)
    return str(first[0]["expected"]), cells


def _place(text: str | None, due: int) -> str | None:
    if text is None:
        return None
    if str(due) not in re.findall(r"\d+", text):
        return f"**{text}**"
    return "any" if "(any)" in text else str(due)


def _section(rows: Mapping[Any, Any], repeats: Sequence[Mapping[str, Any]], one: Example) -> Iterator[str]:
    own = {key[1:]: row for key, row in rows.items() if key[0] == one.name}
    yield from (f"## {one.title}", "")
    yield _provenance(own, one)
    if one.note:
        yield from ("", one.note)
    yield from ("", "| script | variant | " + " | ".join(COLUMNS) + " |", "|---|---|" + "---|" * len(COLUMNS))
    for (script, variant), row in own.items():
        cells = [_cell(one, row, column) for column in COLUMNS]
        yield f"| `{script}` | {variant} | {' | '.join(cells)} |"
    yield from ("", "To repeat each row, run in the root of the repository:", "", "```sh")
    yield from (one.shown(script, variant, one.columns) for script in one.scripts for variant in VARIANTS)
    names = ", ".join(f"`{expression([column])}` ({column})" for column in one.columns)
    yield from ("```", "", f"For one cell, use `-k` with {names}.")
    for column, why in one.experiments_skipped.items():
        yield from ("", f"Not run: {column}: {why}")
    for row in own.values():
        for name, answer in row["answers"].items():
            if answer["verdict"] in ("inconclusive", "skipped"):
                text = f"{row['script']} {row['variant']}, `{name}` is {answer['verdict']}"
                yield from ("", f"{text}: {' '.join(answer['sentences'])}")
    if one.fault:
        yield from ("", "Losses and their causes in the source:", "")
    for fault in one.fault:
        codes = " ".join(f"`{code}`" for code in fault.codes)
        yield f"- {codes} ({', '.join(fault.variants)}; {', '.join(fault.experiments)}): `{fault.where}`. {fault.why}"
        if said := _sentence(own, fault.variants, fault.experiments, fault.codes):
            yield f"  chaoskit: “{said}”"
        yield from ("", "  ```sh", f"  {one.shown('train.py', fault.variants[0], fault.experiments)}", "  ```", "")
    if one.fixed != "train.py":
        yield from (
            "",
            f"The shortest change that makes it exact: {one.change}",
            "",
            "```diff",
            diff(one),
            "```",
            "",
        )
        passed = [variant for variant in VARIANTS if exact(own.get((one.fixed, variant)))]
        yield (
            f"Measured: `exact.py` is exact in {', '.join(passed) or 'no variant'}"
            f"{'; ' if _repeated(repeats, one) else ''}{_repeated(repeats, one)} (killed twice)."
        )
    elif repeated := _repeated(repeats, one):
        yield from ("", f"{repeated} (killed twice).")
    if one.unfixable:
        yield from ("", f"No short change fixes this: {one.unfixable}")
    unseen = {name: why for row in own.values() for name, why in row["blind"].items()}
    known = {blind.component for blind in one.blind}
    if unseen or one.blind:
        yield from ("", "chaoskit does not see:", "")
    yield from (f"- {blind.component}: {blind.why} {blind.remedy}" for blind in one.blind)
    yield from (f"- {name}: {why}" for name, why in unseen.items() if name not in known)


def _provenance(own: Mapping[Any, Mapping[str, Any]], one: Example) -> str:
    scripts = " and ".join(f"[{name}](../../examples/{one.name}/{name})" for name in one.scripts)
    if not own:
        return f"{scripts}; not measured."
    told: dict[str, list[str]] = {}
    for row in own.values():
        packages = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        told.setdefault(f"{packages}, Python {row['python']}", []).append(
            f"{row['when'][:10]} (chaoskit {row['chaoskit']})"
        )
    each = (f"{versions}; {', '.join(dict.fromkeys(days))}" for versions, days in told.items())
    return f"{scripts}; measured with {' and '.join(each)}."


def _sentence(
    own: Mapping[Any, Mapping[str, Any]], variants: Sequence[str], columns: Sequence[str], codes: Sequence[str]
) -> str:
    """What chaoskit said of a fault, where it was seen first."""
    for variant in variants:
        row = own.get(("train.py", variant))
        for column in columns if row else ():
            for answer in answers_of(row, column).values():
                told = [code for code in codes if code in answer["codes"]]
                if told and answer["sentences"]:
                    names = [WORDS.get(code, code.replace("-", " ")) for code in told]
                    fitting = (said for said in answer["sentences"] if any(name in said for name in names))
                    # The page does not show the directory of the measurement.
                    text = re.sub(r"[^\s'\"]*/frameworks-[^/\s]+/", "", next(fitting, answer["sentences"][0]))
                    return re.sub(r"([<*])", r"\\\1", text)
    return ""


def _anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
