"""Audits: experiments in windows that are trained on to their end, so that both verdicts can be compared.

An argument ends a window: a deterministic job that does again what the reference did goes on as the reference went on.
An audit shows whether that is so for this job.
"""

from __future__ import annotations

from collections.abc import Sequence

from xxhash import xxh3_64_hexdigest

from chaoskit.analysis.case import Case
from chaoskit.analysis.reference.reference import Reference
from chaoskit.analysis.windows.convergence import Convergence, unequal
from chaoskit.analysis.windows.rest import with_rest
from chaoskit.checks import Check, judge
from chaoskit.verdict import Verdict

#: One of so many experiments is drawn, and one at least of `FEWEST` or more.
OF, FEWEST = 16, 4


def drawn(names: Sequence[str], *, seed: int) -> frozenset[str]:
    """The experiments of a session that are audited, drawn by the seed. Few experiments have none: the first window of
    a job is audited then, because no other was."""
    count = max(1, len(names) // OF) if len(names) >= FEWEST else 0
    return frozenset(sorted(names, key=lambda name: xxh3_64_hexdigest(f"{seed} {name}".encode()))[:count])


def why_wrong(
    case: Case, reference: Reference, seen: Convergence, checks: Sequence[Check], verdicts: Sequence[Verdict]
) -> str:
    """In what an audit differs from its window, which would have ended at `seen`, in words that follow 'and'; empty if
    in nothing. `verdicts` are those on the whole audit."""
    early = judge(Case(with_rest(case.history, reference, seen), reference, case.journal), checks)
    for one, other in zip(early, verdicts, strict=True):
        if (one.outcome, one.codes) != (other.outcome, other.codes):
            said, shown = (", ".join(each.codes) or each.outcome.value for each in (other, one))
            return f"{other.check} found {said}, where the window shows {shown}{_where(case, reference, seen)}"
    return _where(case, reference, seen).removeprefix(": ")


def _where(case: Case, reference: Reference, seen: Convergence) -> str:
    why = unequal(case.history, reference, incarnation=seen.incarnation, base=seen.base, to_end=True)
    return f": the run {why}" if why else ""
