"""`groups`: the experiments of a suite as its page shows them: under the problem that they show, else by verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaoskit.engine.result import ACCEPTED, SKIPPED, Result
from chaoskit.studies.nights.suite import key_of
from chaoskit.studies.problems.problem import Problem

#: The verdicts, the worst first.
ORDER = ("fail", "inconclusive", ACCEPTED, "pass", SKIPPED)
#: The titles of the groups of experiments that show no problem.
TITLES = {
    "fail": "Failed", "inconclusive": "Could not be decided", ACCEPTED: "Accepted", "pass": "Passed",
    SKIPPED: "Skipped",
}  # fmt: skip
#: Those that nobody needs to read first.
FOLDED = (ACCEPTED, "pass", SKIPPED)
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Group:
    """Experiments that stand together: those that show `problem`, the smallest first, or those of one verdict. Each
    experiment stands in one group; `also` are those that show this problem and stand elsewhere. `anchor` is
    the id on the page, `number` that of the problem (0 for a weakness), `open` whether it begins unfolded."""

    anchor: str
    title: str
    results: tuple[Result, ...]
    problem: Problem | None = None
    number: int = 0
    also: tuple[Result, ...] = ()
    open: bool = False


def groups(results: Sequence[Result], problems: Sequence[Problem] = ()) -> list[Group]:
    """Problems first, then weaknesses, then the remaining experiments by verdict."""
    found: list[Group] = []
    placed: set[int] = set()  # by identity: two stored runs of one experiment may have one name
    names = anchors([f"problem-{problem.code}" for problem in ranked(problems)])
    for number, problem in enumerate(ranked(problems), start=1):
        shown = shown_by(problem, results)
        # What is accepted stands together, whatever it shows.
        own = tuple(result for result in shown if id(result) not in placed and result.verdict != ACCEPTED)
        placed.update(map(id, own))
        also = tuple(result for result in shown if not any(result is each for each in own))
        kind = 0 if problem.weakness else number
        found.append(Group(names[number - 1], problem.code, own, problem, kind, also))
    rest = [result for result in results if id(result) not in placed]
    by_verdict = [(verdict, tuple(r for r in rest if r.verdict == verdict)) for verdict in ORDER]
    kinds = [(verdict, some) for verdict, some in by_verdict if some]
    for verdict, some in kinds:
        title = f"{TITLES[verdict]} for another reason" if found and verdict == "fail" else TITLES[verdict]
        alone = len(kinds) == 1 and not found
        found.append(Group(f"verdict-{verdict}", title, some, open=alone or verdict not in FOLDED))
    return found


def ranked(problems: Iterable[Problem]) -> list[Problem]:
    """Problems before weaknesses; otherwise in the order given."""
    return sorted(problems, key=lambda problem: problem.weakness)


def shown_by(problem: Problem, results: Iterable[Result]) -> list[Result]:
    """The experiments that show the problem, in its order."""
    order = {name: at for at, name in reversed([*enumerate(problem.shown_by)])}
    places = ((order.get(key_of(result), order.get(result.name)), result) for result in results)
    known = [(place, result) for place, result in places if place is not None]
    return [result for _, result in sorted(known, key=lambda each: each[0])]


def anchors(names: Iterable[str]) -> list[str]:
    """Ids for these names, in their order: without odd characters, and each once."""
    taken: set[str] = set()
    found = []
    for name in names:
        base = _ODD.sub("-", name).strip("-")[:120] or "unnamed"
        number, anchor = 1, base
        while anchor in taken:
            number += 1
            anchor = f"{base}-{number}"
        taken.add(anchor)
        found.append(anchor)
    return found
