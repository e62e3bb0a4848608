"""`Acceptance`: a loss that the users have decided to live with. `decide`: what counts of the verdicts on a run then.

An acceptance hides its own code and nothing else. What could hide behind the accepted loss is shown by a `Proof`: a
further run in which the lost state was put back. Without one, the rest is judged where the comparison allows it, and
the ruling says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from chaoskit.engine.result import SKIPPED, Result
from chaoskit.engine.ruling import Ruling
from chaoskit.errors import FAMILIES
from chaoskit.studies.problems.problem import Proof
from chaoskit.verdict import Outcome, Verdict, failed

#: Families whose codes may be consequences of a lost state. A run that is exact with the state put back has none.
CONSEQUENT = ("state", "data", "trajectory")
#: Families whose codes are differences from the reference, behind which a further one may hide.
HIDING = CONSEQUENT
#: Codes that no experiment shows: they are rows of a certificate alone.
OF_CERTIFICATES = ("unpickles-freely",)


@dataclass(frozen=True)
class Acceptance:
    """`code` is accepted, for `reason`, through the day `until` (UTC; None: without an end), in `experiment` alone if
    that is given: the name of an experiment, with or without its parameters, or the node id of a test. `where` is the
    place in the file: 'pyproject.toml:12'."""

    code: str
    reason: str
    until: date | None = None
    experiment: str = ""
    where: str = ""

    def applies(self, names: Collection[str]) -> bool:
        """Whether it is for the experiment that has one of these names (see `names_of`)."""
        return not self.experiment or self.experiment in names

    def expired(self, today: date) -> bool:
        """Whether its last day has passed."""
        return self.until is not None and today > self.until

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, every field."""
        return {**asdict(self), "until": self.until.isoformat() if self.until is not None else None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Acceptance:
        """The inverse of `to_json`."""
        until = date.fromisoformat(data["until"]) if data.get("until") else None
        return cls(**{**data, "until": until})


def today() -> date:
    """The day in UTC, by which acceptances expire."""
    return datetime.now(UTC).date()


def names_of(name: str, nodeid: str = "") -> frozenset[str]:
    """The names by which an acceptance may call an experiment: with and without parameters, and as a node id."""
    every = [name, nodeid] if nodeid else [name]
    return frozenset([*every, *(each.partition("[")[0] for each in every)])


def decide(
    verdicts: Sequence[Verdict],
    acceptances: Iterable[Acceptance],
    *,
    names: Collection[str],
    day: date,
    proof: Proof | None = None,
) -> Ruling:
    """Return what counts of the verdicts on a run of the experiment with these `names`.

    `proof` is that of a further run in which exactly the accepted losses were put back. If it was exact, differences
    that follow from the accepted losses do not count. If it was not, what remained counts as a fail.
    """
    own = [one for one in acceptances if one.applies(names)]
    found = dict.fromkeys(code for v in verdicts if v.outcome is Outcome.FAIL for code in v.codes)
    valid = {one.code: one for one in own if not one.expired(day)}
    accepted = tuple(code for code in found if code in valid)
    late = [one for one in own if one.expired(day) and one.code in found and one.code not in valid]
    notes = [_expired(one) for one in late]
    if not accepted:
        return Ruling(tuple(verdicts), notes=tuple(notes))
    proven = proof is not None and proof.outcome == "proven"
    hidden = {code for code in found if code in valid or (proven and FAMILIES[code] in CONSEQUENT)}
    left, told = [], []
    for verdict in verdicts:
        codes = tuple(code for code in verdict.codes if code not in hidden)
        if _follows(verdict, accepted):
            told.append(verdict.sentence)
        elif verdict.outcome is not Outcome.FAIL or codes == verdict.codes:
            left.append(verdict)
        elif codes:
            left.append(replace(verdict, codes=codes))
        else:
            told.append(verdict.sentence)
    if proof is not None and proof.outcome == "more-lost":
        left.append(failed("put_back", proof.sentence, *(proof.codes or ("loss-diverged",))))
    reasons = {code: valid[code].reason for code in accepted}
    notes = [*(_accepted(valid[code]) for code in accepted), *_behind(accepted, proof), *notes]
    return Ruling(tuple(left), accepted, reasons, tuple(dict.fromkeys(told)), tuple(notes))


def _follows(verdict: Verdict, accepted: Collection[str]) -> bool:
    """Whether what a check could not decide is accepted: a job that may begin again has resumed from nothing."""
    return verdict.codes == ("nothing-to-resume",) and "restarted-from-scratch" in accepted


def may_hide(codes: Iterable[str]) -> bool:
    """Whether a further loss may be hidden behind losses with these codes, so that a proof is needed."""
    return any(FAMILIES[code] in HIDING for code in codes)


def unmatched(acceptances: Iterable[Acceptance], results: Sequence[Result]) -> Iterator[Acceptance]:
    """Yield the acceptances whose code no experiment showed that they are for. Without such an experiment, and if one
    of them was not decided, nothing can be said. The results must be those of a whole battery, for an acceptance that
    names no experiment."""
    for one in acceptances:
        if one.code in OF_CERTIFICATES:
            continue
        own = [result for result in results if one.applies(names_of(result.name, result.nodeid))]
        ran = [result for result in own if result.verdict != SKIPPED]
        decided = ran and not any(result.verdict == Outcome.INCONCLUSIVE for result in ran)
        if decided and not any(one.code in (*result.accepted, *result.codes) for result in ran):
            yield one


def overdue(acceptances: Iterable[Acceptance], results: Sequence[Result], *, day: date) -> Iterator[str]:
    """Say of each acceptance that has expired, and whose code an experiment shows that it was for, that it does not
    count."""
    for one in acceptances:
        own = [result for result in results if one.applies(names_of(result.name, result.nodeid))]
        if one.expired(day) and any(one.code in result.codes for result in own):
            yield _expired(one)


def useless(one: Acceptance, count: int) -> str:
    """Say that an acceptance matched nothing in so many experiments."""
    where = f"in {one.experiment}" if one.experiment else f"in any of {count} experiments"
    return f"{one.where}: the acceptance of {one.code} matched nothing {where}: the job is better than that, remove it"


def _accepted(one: Acceptance) -> str:
    return f"Accepted: {one.code}, {_until(one)}: {one.reason}"


def _expired(one: Acceptance) -> str:
    return (
        f"The acceptance of {one.code} has expired: it was valid {_until(one)}. Repair the job, or decide again and "
        "change the date"
    )


def _until(one: Acceptance) -> str:
    end = f"until {one.until}" if one.until is not None else "without an end"
    return f"{end} ({one.where})" if one.where else end


def _behind(accepted: Sequence[str], proof: Proof | None) -> Iterator[str]:
    """Yield what is known of losses that could hide behind the accepted ones."""
    if proof is not None:
        yield proof.sentence
    if (proof is None or proof.outcome == "impossible") and may_hide(accepted):
        yield (
            "The rest was judged only where the comparison allows it: the accepted loss changes the training, so the "
            "later steps cannot equal the reference, and a further loss among them may be hidden"
        )
