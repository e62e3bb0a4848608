"""`issue`: makes the certificate of a job from suites of its store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from chaoskit.engine.run_store import Store
from chaoskit.errors import Inconclusive, StoreError, UsageError
from chaoskit.studies.certificate import sources
from chaoskit.studies.certificate.certificate import VALID, Certificate, dated
from chaoskit.studies.certificate.evidence import Demands
from chaoskit.studies.certificate.judging import judge
from chaoskit.studies.certificate.reading import digests, find, read
from chaoskit.studies.nights.suite import Suite
from chaoskit.studies.problems.acceptance import Acceptance

#: Files that a sentence names.
SHOWN = 3


def issue(
    suites: Sequence[Suite],
    store: Store,
    *,
    standing: Sequence[Acceptance] = (),
    demands: Demands | None = None,
    now: datetime | None = None,
) -> Certificate:
    """Make the certificate. `standing` are the acceptances in force today.

    Raises UsageError for suites of several jobs or of several versions of the sources; Inconclusive if they are older
    than 30 days, or if the sources have changed since they ran, so that they prove nothing about what is here.
    """
    now = now or datetime.now(UTC)
    if not suites:
        raise UsageError("a certificate needs a suite: run 'chaoskit certify -- COMMAND'")
    since = min(_begin(suite) for suite in suites)
    if now - since > VALID:
        oldest = min(suites, key=_begin)
        raise Inconclusive(
            f"suite {oldest.id} is {(now - since).days} days old, and evidence counts for {VALID.days} days: no row "
            "can be ticked; run 'chaoskit certify -- COMMAND' again"
        )
    if (latest := max(suites, key=_begin)) and _begin(latest) > now:
        raise UsageError(f"suite {latest.id} begins in the future: the clock here or there is wrong")
    evidence = read(suites, store, standing=standing, demands=demands)
    if several := list(sources.mixed(suites)):
        raise UsageError(
            f"the evidence is of several versions of the sources ({_listed(several)}): run the battery again, whole"
        )
    for what, found in (
        ("versions of chaoskit", {suite.chaoskit for suite in suites}),
        ("machines", {tuple(sorted(suite.machine.items())) for suite in suites}),
    ):
        if len(found) > 1:
            raise UsageError(
                f"the suites are of {len(found)} {what}: certify those of one, or run the battery again"
            )
    if not evidence.runs:
        raise Inconclusive(
            f"no run of {_names(suites)} is stored in {store.runs} any more, or can be read: no row can be ticked; run "
            "'chaoskit certify -- COMMAND' again"
        )
    basis, changed = sources.basis(suites, store)
    if changed:
        raise Inconclusive(
            f"the evidence is of other sources than those here ({_listed(changed)}): no row can be ticked; run "
            "'chaoskit certify -- COMMAND' again"
        )
    made = Certificate(
        evidence.job, "", "", "", judge(evidence), basis, tuple(suite.id for suite in suites),
        tuple(_environments(suites, store)), digests(evidence), tuple(_notes(suites)),
    )  # fmt: skip
    return dated(made, since=since, now=now)


def _names(suites: Sequence[Suite]) -> str:
    return f"suite {suites[0].id}" if len(suites) == 1 else f"these {len(suites)} suites"


def _begin(suite: Suite) -> datetime:
    try:
        moment = datetime.fromisoformat(suite.created)
    except ValueError as error:
        raise UsageError(f"suite {suite.id} has no date, so nobody knows how old it is") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _notes(suites: Sequence[Suite]) -> Iterable[str]:
    for suite in suites:
        if suite.status == "running":
            yield f"suite {suite.id} did not end, so experiments may be missing"
        elif suite.status != "finished":
            yield f"suite {suite.id} was {suite.status}, so experiments are missing"
        if missing := [result for result in suite.results if result.is_unrun]:
            yield f"suite {suite.id} had no time for {len(missing)} of {len(suite.results)} experiments"
        if not suite.conditions:
            yield f"suite {suite.id} does not say which files its runs read, so a change of them is not noticed"
    if watched := sum(bool(result.watched) for suite in suites for result in suite.results):
        yield f"{watched} experiments ran in a window around their fault"


def _environments(suites: Sequence[Suite], store: Store) -> Iterable[str]:
    found: dict[str, None] = {}
    for result in (result for suite in suites for result in suite.results):
        for run_dir in filter(None, (find(text, store) for text in result.runs[:1])):
            with suppress(StoreError):
                told = store.read(run_dir)
                found[f"{told['environment']}, nodes: {told['job'].get('nnodes', 1)}"] = None
    return found


def _listed(sentences: Sequence[str]) -> str:
    more = f" and {len(sentences) - SHOWN} more" if len(sentences) > SHOWN else ""
    return "; ".join(sentences[:SHOWN]) + more
