"""`log_right`: the job's own log has the same loss for each step as the log of an uninterrupted run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from chaoskit.analysis.case import Case
from chaoskit.analysis.record.harness_record import LogLine
from chaoskit.analysis.record.history import History
from chaoskit.analysis.record.steps import LOSS
from chaoskit.checks.check import Check, unmeasured
from chaoskit.checks.registry import check
from chaoskit.verdict import Verdict, failed, inconclusive, passed


@dataclass(frozen=True)
class Flaw:
    """One thing that is wrong with the log of a launch (None: with the one document). `step`, as printed, is the one
    of which a wrong value is told; None if lines are missing or out of order."""

    sentence: str
    launch: int | None
    step: int | None = None


@dataclass(frozen=True)
class LogRight:
    """See `log_right`."""

    name = "log_right"

    def __call__(self, case: Case) -> Verdict:
        if (unknown := unmeasured(self.name, case)) is not None:
            return unknown
        assert case.reference is not None
        controls = case.reference.controls
        if (why := next((why for one in controls if (why := _unusable(one)) is not None), None)) is not None:
            return inconclusive(self.name, why, "probe-blind")
        cut = next((cut for one in (case.history, *controls) for cut in one.cut_logs), None)
        if cut is not None and any(line.launch is not None for one in controls for line in one.log):
            why = f"lines are missing: {cut}; print less, or let the job keep a log below {{out}} (log_file)"
            return inconclusive(self.name, why, "probe-blind")
        wanted, *others = ({(line.by, line.step): line.loss for line in one.log} for one in controls)
        for key in sorted(key for other in others for key, _ in wanted.items() ^ other.items()):
            texts = [own.get(key, "nothing") for own in (wanted, *others)]
            sentence = f"uninterrupted runs print different losses for step {key[1]}: {' and '.join(texts)}"
            return inconclusive(self.name, sentence, "not-deterministic", step=key[1], losses=texts)
        return self._judged(case, _Audit(case, wanted))

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def _judged(self, case: Case, audit: _Audit) -> Verdict:
        flaws = list(audit.flaws())
        wrong = [flaw for flaw in flaws if not audit.excuses(flaw)]
        # Whether a value is the training's own can be told to the bit only.
        decided = [flaw for flaw in wrong if flaw.step is None or case.timeline.bitwise]
        lines = case.history.log
        digits = " (printed digits were compared)" if any(_is_decimal(line.loss) for line in lines) else ""
        evidence = {
            "lines": len(lines),
            "compared": audit.compared,
            "flaws": [flaw.sentence for flaw in (decided or wrong or flaws)[:20]],
        }
        if decided:
            more = f", and {len(decided) - 1} more" if len(decided) > 1 else ""
            sentence = f"the log is wrong where the training is right: {decided[0].sentence}{more}{digits}"
            return failed(self.name, sentence, "log-wrong", **evidence)
        if wrong:
            sentence = (
                f"{wrong[0].sentence}; the job is not deterministic, so the training itself may differ "
                f"there{digits}"
            )
            return inconclusive(self.name, sentence, "not-deterministic", **evidence)
        if not audit.compared:
            why = "no line that the run printed has a counterpart in the uninterrupted runs"
            return inconclusive(self.name, why, "probe-blind", **evidence)
        if flaws:
            why = "it differs from uninterrupted runs only where the training does"
            sentence = f"the log agrees with the training; {why}: {flaws[0].sentence}{digits}"
            return passed(self.name, sentence, **evidence)
        sentence = f"{audit.compared} printed losses equal those of the uninterrupted runs{digits}"
        return passed(self.name, sentence, **evidence)


class _Audit:
    """Compares the log of a run with `wanted`: what the controls print, by writer and step."""

    def __init__(self, case: Case, wanted: Mapping[tuple[str, int], str]) -> None:
        assert case.reference is not None
        self.case, self.reference, self.wanted = case, case.reference, wanted
        self.one_document = self.reference.controls[0].log[0].launch is None
        self.steps: dict[str, list[int]] = {}
        for by, step in wanted:
            self.steps.setdefault(by, []).append(step)
        self.pages: dict[tuple[int | None, int | None, str], list[LogLine]] = {}
        for line in case.history.log:
            self.pages.setdefault((line.launch, line.restart, line.by), []).append(line)

    @property
    def compared(self) -> int:
        """How many lines have a counterpart."""
        return sum((line.by, line.step) in self.wanted for line in self.case.history.log)

    def flaws(self) -> Iterator[Flaw]:
        """Yield every difference between the log and those of the controls."""
        for page in self.pages.values():
            yield from self._order(page)
            yield from self._values(page)
            yield from self._gaps(page)
        if self.case.history.end == "finished":
            yield from self._ends()

    def _order(self, page: Sequence[LogLine]) -> Iterator[Flaw]:
        """Yield steps that are printed again. Each lifetime after the first may go back once, to where it resumed."""
        back = [(before, line) for before, line in pairwise(page) if line.step <= before.step]
        if len(back) < self._lifetimes(page[0]):
            return
        # Of several, the one that no resume explains.
        before, line = next(((a, b) for a, b in back if a.step == b.step), back[-1])
        first = next(one for one in page if one.step == line.step)
        if first is line:
            what = f"step {line.step} ({line.loss}, {_at(line)}) comes after step {before.step}"
        else:
            what = f"step {line.step} is printed again: {first.loss} in {_at(first)}, {line.loss} in {_at(line)}"
        yield Flaw(what, line.launch)

    def _lifetimes(self, line: LogLine) -> int:
        """How many lifetimes wrote the page of a line."""
        if line.launch is None:
            return 1
        lifetimes = [inc.restart for inc in self.case.history.incarnations if inc.launch == line.launch]
        return max(1, len(lifetimes) if line.restart is None else lifetimes.count(line.restart))

    def _values(self, page: Sequence[LogLine]) -> Iterator[Flaw]:
        for line in page:
            wanted, steps = self.wanted.get((line.by, line.step)), self.steps.get(line.by)
            printed = f"step {line.step} has loss {line.loss} in {_at(line)}"
            if wanted is not None and wanted != line.loss:
                yield Flaw(f"{printed}, but uninterrupted runs print {wanted}", line.launch, line.step)
            elif steps and not steps[0] <= line.step <= steps[-1]:
                yield Flaw(f"{printed}, but uninterrupted runs print no such step", line.launch, line.step)

    def _gaps(self, page: Sequence[LogLine]) -> Iterator[Flaw]:
        for before, line in pairwise(page):
            steps = self.steps.get(line.by, [])
            between = steps[bisect_right(steps, before.step) :][:1]
            if between and between[0] < line.step:
                place = f"before {_at(line)}, between {before.step} and {line.step}"
                yield Flaw(self._missing(line.by, between[0], place), line.launch)

    def _ends(self) -> Iterator[Flaw]:
        """Yield what a finished job never printed: the last step, and the first step of a document."""
        printed = {(line.by, line.step) for line in self.case.history.log}
        for by, steps in self.steps.items():
            due = (
                [steps[0], steps[-1]] if self.one_document else [steps[-1]] if self._ended_after(steps[-1]) else []
            )
            for step in due:
                if (by, step) not in printed:
                    yield Flaw(self._missing(by, step, "in the whole log"), None)

    def _missing(self, by: str, step: int, where: str) -> str:
        return f"step {step}, for which uninterrupted runs print {self.wanted[by, step]}, is missing {where}"

    def _ended_after(self, printed: int) -> bool:
        """Whether a lifetime that ended by itself took this step: its last lines were not lost with it."""
        last = self.case.timeline.kept(0, printed + self._offset) if self._in_steps else None
        return last is not None and self.case.history.incarnations[last.incarnation].ranks[0].end is not None

    @cached_property
    def _offset(self) -> int:
        """From a printed step to its true number: some loops count from 0."""
        return int(any(steps[0] == 0 for steps in self.steps.values()))

    @cached_property
    def _in_steps(self) -> bool:
        """Whether printed numbers are those of optimizer steps: the next line would come after the last step."""
        steps = max(self.steps.values(), key=lambda steps: steps[-1])
        stride = steps[-1] - steps[-2] if len(steps) > 1 else steps[-1]
        return steps[-1] + self._offset <= self.reference.steps < steps[-1] + self._offset + stride

    def excuses(self, flaw: Flaw) -> bool:
        """Whether the training itself differed from the reference there, so that a different log is right."""
        wrong = [first for launch, first in self._departures if flaw.launch in (None, launch)]
        if flaw.step is None or not self._in_steps:
            return bool(wrong)
        return any(first <= flaw.step + self._offset for first in wrong)

    @cached_property
    def _departures(self) -> list[tuple[int, int]]:
        """The true step from which the losses of a launch differ from the reference; every later step may depend on
        it. If no loss was recorded, the rest of the state counts; a state that matches nothing differs from the first
        step."""
        seen = self.case.comparison
        found = [(index, 0) for index in self.case.timeline.unplaced]
        found += [(at[0], step) for at, step in seen.first.items() if at[2] == LOSS or LOSS not in seen.names]
        found += [(index, (self.case.timeline.base(index) or 0) + 1) for index in self.case.timeline.resized]
        past = (one.execution for one in seen.differences if "steps" in one.values)
        found += [(one.incarnation, one.step) for one in past]
        return [(self.case.history.incarnations[index].launch, step) for index, step in found]


def _unusable(control: History) -> str | None:
    """Return why the log of a control cannot be compared with: it has no line, or several for a step."""
    if not control.log:
        return (
            "there is no log to compare: no line of an uninterrupted run gives a step and its loss (the job's "
            "log_regex must match such lines)"
        )
    last: dict[str, LogLine] = {}
    for line in control.log:
        before = last.get(line.by)
        if before is not None and line.step <= before.step:
            places = f"step {before.step} in {_at(before)} and then step {line.step} in {_at(line)}"
            return f"an uninterrupted run prints {places}: log_regex must find one line a step, in ascending order"
        last[line.by] = line
    return None


def _at(line: LogLine) -> str:
    """'line 14 of rank 0's log of launch 1'."""
    whose = f"{line.by}'s log" if line.by else "the log"
    launch = f" of launch {line.launch}" if line.launch is not None else ""
    restart = f", restart {line.restart}" if line.restart else ""
    return f"line {line.line} of {whose}{launch}{restart}"


def _is_decimal(loss: str) -> bool:
    """Whether the text is rounded: a hexadecimal number gives all bits, a decimal one may stand for many floats."""
    return "0x" not in loss.lower()


@check("log-wrong", "not-deterministic")
def log_right() -> Check:
    """In every launch the job's log has each step once, in order and without a gap, with the loss that the log of an
    uninterrupted run has; a log that the job keeps as one document has each step exactly once.

    Texts are compared, so of decimals the printed digits. A log that differs only because the training differs is
    right. Fails with `log-wrong`. Without the job's `log_regex` there is no log to compare, which is inconclusive.
    """
    return LogRight()
