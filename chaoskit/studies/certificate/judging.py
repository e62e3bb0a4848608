"""`judge`: what the evidence comes to, row by row. A pure function: it never reads a file or a clock.

A row is proven only if each experiment that it needs passed each check that it needs, in runs that are stored. Whatever
is missing, skipped, inconclusive, of another job, or failed for a reason of another row leaves it untested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from chaoskit.engine.result import ACCEPTED, SKIPPED, Result
from chaoskit.errors import FAMILIES
from chaoskit.studies.certificate import measures
from chaoskit.studies.certificate.absences import COMPONENTS, CONDITIONS, of_the_job
from chaoskit.studies.certificate.evidence import ReadinessEvidence, TriedExperiment
from chaoskit.studies.certificate.measures import Sight
from chaoskit.studies.certificate.row import Need, Row, RowState, State
from chaoskit.studies.certificate.rows import ROWS
from chaoskit.studies.problems.acceptance import names_of
from chaoskit.verdict import Outcome, Verdict

#: Sentences that a row shows of those that keep it from being proven.
SHOWN = 3
_ANY = "[*]"


def judge(evidence: ReadinessEvidence, rows: Sequence[Row] = ROWS) -> tuple[RowState, ...]:
    """Return the state of each row, in the order of the rows."""
    found = [_state(row, evidence) for row in rows if row.measure != "rest"]
    named = {code for one in found if one.state in ("failed", "accepted") for code in one.codes}
    rest = {row.id: _rest(row, evidence, named) for row in rows if row.measure == "rest"}
    by_id = {one.id: one for one in found} | rest
    return tuple(by_id[row.id] for row in rows)


def _state(row: Row, evidence: ReadinessEvidence) -> RowState:
    sights = [sight for need in row.needs for sight in _of_need(need, row, evidence)]
    if row.measure:
        sights = list(measures.MEASURES[row.measure](evidence, sights))
    ran = any(one in evidence.trials for need in row.needs for one in need.experiments)
    if row.only_if and not ran and (why := CONDITIONS[row.only_if](evidence.nodes)):
        sights = [Sight("not-applicable", why)]
    state = _combined(sights)
    figures = _figures(row, evidence, sights) if state in ("proven", "accepted") else {}
    if state in ("proven", "accepted") and row.figure_needed and row.figure_needed not in figures:
        state, sights = (
            "not-tested",
            [Sight("not-tested", f"no run says how long that took ({row.figure_needed})")],
        )
    return _told(row, state, sights, figures)


def _combined(sights: Sequence[Sight]) -> State:
    states = {sight.state for sight in sights}
    order: tuple[State, ...] = ("failed", "not-tested", "accepted", "proven", "not-applicable")
    return next((state for state in order if state in states), "not-tested")


def _told(row: Row, state: State, sights: Sequence[Sight], figures: Mapping[str, float]) -> RowState:
    own = [sight for sight in sights if sight.state == state]
    counted = own if state != "proven" else [sight for sight in sights if sight.runs]
    experiments = tuple(dict.fromkeys(sight.experiment for sight in counted if sight.experiment))
    runs = tuple(dict.fromkeys(run for sight in counted for run in sight.runs))
    sentences = list(dict.fromkeys(sight.sentence for sight in own if sight.sentence))
    # One failure is enough to read; the page and `chaoskit explain` have the others.
    shown = 1 if state == "failed" else SHOWN
    more = f" (and {len(sentences) - shown} more)" if len(sentences) > shown else ""
    text = "; ".join(sentences[:shown]) + more
    if state == "proven" and not text:
        text = f"shown by {len(experiments)} experiment{'' if len(experiments) == 1 else 's'}"
    return RowState(
        row.id, row.title, row.claim, state, text or "nothing in the suite tests this",
        how=row.how if state == "not-tested" else "",
        codes=tuple(dict.fromkeys(code for sight in own for code in sight.codes)) if state != "proven" else (),
        reasons={code: why for sight in own for code, why in sight.reasons.items()},
        figures={**{name: value for sight in sights for name, value in sight.figures.items()}, **figures},
        experiments=experiments, runs=runs,
    )  # fmt: skip


def _figures(row: Row, evidence: ReadinessEvidence, sights: Sequence[Sight]) -> dict[str, float]:
    names = {sight.experiment for sight in sights if sight.runs}
    results = [one.result for name in names for one in evidence.trials.get(name, ())]
    found = {}
    for field_ in row.figures:
        values = [float(value) for one in results if (value := getattr(one, field_)) is not None]
        if values:
            found[field_] = max(values)
    return found


def _of_need(need: Need, row: Row, evidence: ReadinessEvidence) -> Iterator[Sight]:
    sights = [sight for name in need.experiments for sight in _of_name(name, need, row, evidence)]
    if need.least is None:
        yield from sights
        return
    good = [sight for sight in sights if sight.state in ("proven", "accepted")]
    bad = [sight for sight in sights if sight.state == "failed"]
    if bad or len(good) >= need.least:
        yield from (*bad, *good)
    else:
        names = ", ".join(short(name) for name in need.experiments)
        yield Sight("not-tested", f"this takes {need.least} of: {names}")


def _of_name(name: str, need: Need, row: Row, evidence: ReadinessEvidence) -> Iterator[Sight]:
    if name.endswith(_ANY):
        found = [one for one in evidence.trials if one.startswith(name.removesuffix("*]"))]
        if not found:
            yield Sight("not-tested", f"{short(name)} did not run")
        names = found
    else:
        names = [name]
    for one in names:
        if one in evidence.trials:
            yield _of_trials(one, evidence.trials[one], need, row, evidence)
        elif not name.endswith(_ANY):
            yield Sight("not-tested", f"{short(one)} did not run")


def _of_trials(
    name: str, trials: Sequence[TriedExperiment], need: Need, row: Row, evidence: ReadinessEvidence
) -> Sight:
    """The worst of the suites counts; where an experiment was skipped in one suite, the others count."""
    ran = [one for one in trials if one.result.verdict != SKIPPED]
    sights = [_of_trial(name, one, need, row, evidence) for one in ran or trials[-1:]]
    worst = _combined(sights)
    return next(sight for sight in sights if sight.state == worst)


def _of_trial(name: str, one: TriedExperiment, need: Need, row: Row, evidence: ReadinessEvidence) -> Sight:
    result, called = one.result, short(name)

    def open_(why: str) -> Sight:
        return Sight("not-tested", f"{called}: {why}", name)

    said = result.sentences[0] if result.sentences else "no reason is stored"
    if result.verdict == SKIPPED:
        if not result.is_unrun and of_the_job(said, ranks=evidence.ranks):
            return Sight("not-applicable", said, name)
        return open_(said)
    if result.trouble:
        return open_(f"it went wrong by itself: {said}")
    if one.gap:
        return open_(one.gap)
    if result.verdict == Outcome.INCONCLUSIVE:
        return open_(f"inconclusive: {said}")
    if result.verdict == Outcome.FAIL and not (result.codes or result.accepted):
        return Sight("failed", f"{called}: {said}", name, _ids(one))
    if row.components and need.checks == ("state_restored",):
        return _of_components(name, one, row, evidence)
    sights = [_of_check(name, one, check, row, evidence) for check in need.checks]
    worst = _combined(sights)
    those = [sight for sight in sights if sight.state == worst]
    codes = tuple(dict.fromkeys(code for sight in those for code in sight.codes))
    reasons = {code: why for sight in those for code, why in sight.reasons.items()}
    return replace(those[0], runs=_ids(one), codes=codes, reasons=reasons)


def _of_check(name: str, one: TriedExperiment, check: str, row: Row, evidence: ReadinessEvidence) -> Sight:
    """The verdicts of one check on the runs of an experiment."""
    verdicts = [verdict for run in one.runs for verdict in run.verdicts if verdict.check == check]
    called = short(name)
    if not verdicts:
        return Sight("not-tested", f"{called}: its runs were not held to {check}", name)
    for verdict in verdicts:
        if verdict.outcome is Outcome.FAIL:
            return _of_fail(name, one, verdict, row, evidence)
    if any(verdict.outcome is not Outcome.PASS for verdict in verdicts):
        why = next(verdict.sentence for verdict in verdicts if verdict.outcome is not Outcome.PASS)
        return Sight("not-tested", f"{called}: {check} is inconclusive: {why}", name)
    return Sight("proven", "", name)


def _of_fail(name: str, one: TriedExperiment, verdict: Verdict, row: Row, evidence: ReadinessEvidence) -> Sight:
    called, result = short(name), one.result
    left = [code for code in verdict.codes if code in result.codes]
    if not left and (result.verdict == ACCEPTED or set(verdict.codes) & set(result.accepted)):
        return _accepted(name, verdict, result, row, evidence)
    codes = tuple(left or verdict.codes)
    against = tuple(code for code in codes if not row.codes or code in row.codes)
    if against:
        return Sight("failed", f"{called}: {verdict.sentence}", name, codes=against)
    return Sight("not-tested", f"{called} failed for another reason ({', '.join(codes)}): repair that first", name)


def _accepted(name: str, verdict: Verdict, result: Result, row: Row, evidence: ReadinessEvidence) -> Sight:
    own = tuple(code for code in result.accepted if code in verdict.codes) or result.accepted
    against = tuple(code for code in own if not row.codes or code in row.codes)
    if not against:
        return Sight("not-tested", f"{short(name)}: what is accepted there ({', '.join(own)}) hides this", name)
    names = names_of(result.name, result.nodeid)
    if gone := [code for code in against if not in_force(code, names, evidence)]:
        why = f"the acceptance of {gone[0]} is no longer in force: {verdict.sentence}"
        return Sight("failed", f"{short(name)}: {why}", name, codes=tuple(gone))
    reasons = {code: result.reasons.get(code, "") for code in against}
    return Sight("accepted", "; ".join(dict.fromkeys(reasons.values())), name, codes=against, reasons=reasons)


def in_force(code: str, names: Iterable[str], evidence: ReadinessEvidence) -> bool:
    """Whether a code is accepted today in an experiment of these names."""
    known = frozenset(names)
    return any(one.code == code and one.applies(known) for one in evidence.standing)


def _of_components(name: str, one: TriedExperiment, row: Row, evidence: ReadinessEvidence) -> Sight:
    """Components are judged each on its own: the row of a component does not fail because another one was lost."""
    verdicts = [verdict for run in one.runs for verdict in run.verdicts if verdict.check == "state_restored"]
    whole = replace(_of_check(name, one, "state_restored", row, evidence), runs=_ids(one))
    tables = [entry for verdict in verdicts for entry in verdict.evidence.get("table") or ()]
    due = [entry for entry in tables if entry.get("expected") is not None]
    has = {kind for entry in due for kind, cell in entry.get("cells", {}).items() if cell is not None}
    own = {kind for kind in has if kind.partition(".")[0] in row.components}
    if whole.state == "proven":
        if own:
            return whole
        if not due:
            return Sight("not-tested", f"{short(name)}: no resume was compared", name)
        if row.required:
            return Sight("not-tested", f"{short(name)}: the record has no {' or '.join(row.components)}", name)
        return Sight("not-applicable", f"the job has no {COMPONENTS[row.components[0]]}", name)
    lost = {code for verdict in verdicts for code in verdict.codes}
    told = all(FAMILIES.get(code) in ("state", "data") for code in lost)
    if (
        whole.state == "not-tested"
        and lost
        and told
        and not any(v.outcome is Outcome.INCONCLUSIVE for v in verdicts)
    ):
        if own and all(_is_due(entry["cells"].get(kind), entry["expected"]) for entry in due for kind in own):
            return Sight("proven", "", name, _ids(one))
        if due and not own and not row.required:
            return Sight("not-applicable", f"the job has no {COMPONENTS[row.components[0]]}", name)
    return whole


def _is_due(cell: object, expected: object) -> bool:
    """Whether a cell of the alignment names the expected step; one that the record lacks names nothing."""
    return str(expected) in re.findall(r"\d+", str(cell))


def _rest(row: Row, evidence: ReadinessEvidence, named: set[str]) -> RowState:
    """What experiments found and no other row names; and experiments that went wrong without a code."""
    every = [(name, one) for name, several in evidence.trials.items() for one in several]
    # A failure counts even where its run is gone; everything else needs its run.
    trials = [(name, one) for name, one in every if not one.gap or one.result.verdict == Outcome.FAIL]
    judged = [(name, one) for name, one in trials if one.result.verdict not in (SKIPPED, Outcome.INCONCLUSIVE)]
    sights = []
    for name, one in judged:
        # What follows from a cause of the same experiment is no further finding.
        follows = {found.code for found in one.result.told if found.follows}
        new = tuple(code for code in one.result.codes if code not in named and code not in follows)
        said = one.result.sentences[0] if one.result.sentences else ""
        if one.result.verdict == Outcome.FAIL and (new or not one.result.codes):
            about = next((found.sentence for found in one.result.told if found.code in new), "") or said
            sights.append(Sight("failed", f"{short(name)}: {about}", name, _ids(one), codes=new))
        taken = tuple(code for code in one.result.accepted if code not in named)
        if taken and not new:
            gone = [code for code in taken if not in_force(code, names_of(name, one.result.nodeid), evidence)]
            reasons = {code: one.result.reasons.get(code, "") for code in taken}
            sights.append(
                Sight("failed", f"the acceptance of {gone[0]} is no longer in force", name, _ids(one), codes=taken)
                if gone
                else Sight("accepted", "; ".join(reasons.values()), name, _ids(one), codes=taken, reasons=reasons)
            )
    undecided = [name for name, one in trials if one.result.verdict == Outcome.INCONCLUSIVE]
    if undecided:
        names = ", ".join(map(short, undecided[:SHOWN])) + (", ..." if len(undecided) > SHOWN else "")
        sights.append(Sight("not-tested", f"{len(undecided)} experiments are inconclusive ({names})"))
    if not judged:
        sights.append(Sight("not-tested", "no experiment was judged"))
    if not sights:
        total = len(judged)
        sights = [Sight("proven", f"{total} experiment{'' if total == 1 else 's'} found nothing else",
                        runs=tuple(run for _, one in judged for run in _ids(one)))]  # fmt: skip
    return _told(row, _combined(sights), sights, {})


def short(name: str) -> str:
    """The name of an experiment without its module."""
    return name.rpartition("::")[2]


def _ids(one: TriedExperiment) -> tuple[str, ...]:
    return tuple(run.id for run in one.runs)
