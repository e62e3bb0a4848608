"""Audits: experiments that are run in a window and then whole, so that both verdicts can be compared.

A window ends because of an argument: a deterministic job that equals the reference again continues as the reference
did. An audit tests whether that is true for this job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from xxhash import xxh3_64_hexdigest

from chaoskit.analysis.case import Case
from chaoskit.analysis.windows.convergence import unequal
from chaoskit.files.whole_files import replace_file
from chaoskit.protocol import json_lines
from chaoskit.verdict import Verdict

#: One of `OF` experiments is drawn, and at least one of `FEWEST` or more.
OF, FEWEST = 16, 4


def drawn(names: Sequence[str], *, seed: int) -> frozenset[str]:
    """The experiments of a session that are audited, drawn by the seed. If there are few experiments, none is drawn:
    then the first window of a job is audited, because no other was."""
    names = sorted({*names}, key=lambda name: xxh3_64_hexdigest(f"{seed} {name}".encode()))
    return frozenset(names[: max(1, len(names) // OF) if len(names) >= FEWEST else 0])


class SessionAudits:
    """The audits of one session. Of each job, as many experiments are audited as were `drawn`, and at least one: the
    first window, if no window of the job was ever audited, and then those that were drawn. Parallel processes keep
    their audits in the same file, `shared`."""

    def __init__(self, drawn: frozenset[str] = frozenset(), *, shared: Path | None = None) -> None:
        self._drawn = drawn
        self._shared = shared
        self._own: list[tuple[str, str | None]] = []

    def claim(self, job: str, experiment: str, *, first: bool) -> bool:
        """Whether to audit an experiment that is about to be run in a window. `first` says that no audit of the job is
        stored. If the claimed audit is not made, call `release`."""
        with self._taken() as taken:
            audited = [one for of, one in taken if of == job and one is not None]
            due = experiment in self._drawn or (job, None) in taken
            claimed = (first and not audited) or (due and len(audited) < len(self._drawn))
            if claimed:
                if experiment not in self._drawn and (job, None) in taken:
                    taken.remove((job, None))
                taken.append((job, experiment))
            return claimed

    def pass_on(self, job: str, experiment: str) -> None:
        """Skip an experiment that cannot be audited. If it was drawn, the next one that can be is audited in its place.
        """
        if experiment in self._drawn:
            with self._taken() as taken:
                taken.append((job, None))

    def release(self, job: str, experiment: str) -> None:
        """Give back a claim: the experiment was not audited, so the next one that can be is."""
        with self._taken() as taken:
            if (job, experiment) in taken:
                taken[taken.index((job, experiment))] = (job, None)

    @contextmanager
    def _taken(self) -> Iterator[list[tuple[str, str | None]]]:
        """Yield job and experiment of each audit of all processes so far, as a list to change. An audit that was passed
        on has no experiment yet."""
        if self._shared is None:
            yield self._own
            return
        with FileLock(f"{self._shared}.lock"):
            lines = json_lines.read(self._shared) if self._shared.is_file() else ()
            taken: list[tuple[str, str | None]] = [(one, other) for line in lines for one, other in [line.value]]
            yield taken
            replace_file(self._shared, b"".join(map(json_lines.encode, taken)))


def why_wrong(case: Case, early: Sequence[Verdict], verdicts: Sequence[Verdict]) -> str:
    """How an experiment that was run whole differs from its window, in words that follow 'and'; empty if it does not.
    `early` are the verdicts on the window, all of them passes, and `verdicts` those on `case`, the whole run."""
    where = _where(case)
    for one, other in zip(early, verdicts, strict=True):
        if (one.outcome, one.codes) != (other.outcome, other.codes):
            said, shown = (", ".join(each.codes) or each.outcome.value for each in (other, one))
            return f"{other.check} found {said}, where the window shows {shown}{f': {where}' if where else ''}"
    return where


def _where(case: Case) -> str:
    """How the whole run differs from the reference after its last resume; empty if it does not."""
    assert case.reference is not None
    last = case.history.incarnations[-1].index
    base = case.timeline.base(last)
    if base is None:
        return "the run does not show from which step it resumed"
    why = unequal(case.history, case.reference, incarnation=last, base=base, to_end=True)
    return f"the run {why}" if why else ""
