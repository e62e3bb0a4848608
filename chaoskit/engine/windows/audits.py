"""Audits: experiments that are run in a window and then whole, so that both verdicts can be compared.

An argument ends a window: a deterministic job that does again what the reference did goes on as the reference went on.
An audit shows whether that is so for this job.
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

#: One of so many experiments is drawn, and one at least of `FEWEST` or more.
OF, FEWEST = 16, 4


def drawn(names: Sequence[str], *, seed: int) -> frozenset[str]:
    """The experiments of a session that are audited, drawn by the seed. Few experiments have none: the first window of
    a job is audited then, because no other was."""
    names = sorted({*names}, key=lambda name: xxh3_64_hexdigest(f"{seed} {name}".encode()))
    return frozenset(names[: max(1, len(names) // OF) if len(names) >= FEWEST else 0])


class SessionAudits:
    """The audits of one session. Of each job as many experiments are audited as were `drawn`, one at least: the first
    window, if no window of the job was ever audited, and then those that were drawn. Processes that work side by side
    keep what they audit in the same file, `shared`."""

    def __init__(self, drawn: frozenset[str] = frozenset(), *, shared: Path | None = None) -> None:
        self._drawn = drawn
        self._shared = shared
        self._own: list[tuple[str, str | None]] = []

    def claim(self, job: str, experiment: str, *, first: bool) -> bool:
        """Whether an experiment that is about to be run in a window is audited. `first` says that no audit of the job
        is stored. What was claimed and comes to nothing is given back by `release`."""
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
        """An experiment cannot be audited. If it was drawn, the next one that can be is audited in its place."""
        if experiment in self._drawn:
            with self._taken() as taken:
                taken.append((job, None))

    def release(self, job: str, experiment: str) -> None:
        """The experiment was not audited after all: the next one that can be is."""
        with self._taken() as taken:
            if (job, experiment) in taken:
                taken[taken.index((job, experiment))] = (job, None)

    @contextmanager
    def _taken(self) -> Iterator[list[tuple[str, str | None]]]:
        """Job and experiment of each audit of all processes so far, to be changed; an audit that was passed on has no
        experiment yet."""
        if self._shared is None:
            yield self._own
            return
        with FileLock(f"{self._shared}.lock"):
            lines = json_lines.read(self._shared) if self._shared.is_file() else ()
            taken: list[tuple[str, str | None]] = [(one, other) for line in lines for one, other in [line.value]]
            yield taken
            replace_file(self._shared, b"".join(map(json_lines.encode, taken)))


def why_wrong(case: Case, early: Sequence[Verdict], verdicts: Sequence[Verdict]) -> str:
    """In what an experiment that was run whole differs from its window, in words that follow 'and'; empty if in
    nothing. `early` are the verdicts on the window, all of them passes, and `verdicts` those on `case`, the whole run.
    """
    where = _where(case)
    for one, other in zip(early, verdicts, strict=True):
        if (one.outcome, one.codes) != (other.outcome, other.codes):
            said, shown = (", ".join(each.codes) or each.outcome.value for each in (other, one))
            return f"{other.check} found {said}, where the window shows {shown}{f': {where}' if where else ''}"
    return where


def _where(case: Case) -> str:
    """In what the whole run differs from the reference after its last resume."""
    assert case.reference is not None
    last = case.history.incarnations[-1].index
    base = case.timeline.base(last)
    if base is None:
        return "the run does not show from which step it resumed"
    why = unequal(case.history, case.reference, incarnation=last, base=base, to_end=True)
    return f"the run {why}" if why else ""
