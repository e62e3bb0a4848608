"""`Finding`: one component of one rank that is wrong, with its description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaoskit.analysis.alignment.alignment import show_positions

#: Names of components in tables and sentences, if they differ from the component's own name.
WORDS = {"lr": "LR", "rng": "RNG", "ema": "EMA", "batch": "data", "options": "optimizer options"}
STREAMS = {"torch": "torch CPU"}


def many_ranks(*sizes: int) -> str:
    """'1 rank', '1 and 3 ranks'."""
    return f"{' and '.join(map(str, sizes))} rank{'' if sizes == (1,) else 's'}"


def show_ranks(ranks: Sequence[int]) -> str:
    """'rank 1', 'ranks 0, 1'."""
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


@dataclass(frozen=True)
class Finding:
    """At true step `step` the component should be at position `expected`, and is at `found` (empty: at no step of the
    reference; None: not looked up).

    `more` are further codes. `tensors` names the tensors that differ, of `of` that were compared. `whose` is the rank
    that has this value in the reference. `redrawn`: a batch consists of the right rows of the data set in the right
    order, but of samples that the reference never has: they depend on random numbers.
    """

    code: str
    component: str
    rank: int
    incarnation: int
    step: int
    expected: int
    found: tuple[int, ...] | None = None
    more: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    of: int = 0
    whose: int | None = None
    redrawn: bool = False

    @property
    def family(self) -> str:
        """The column of the table that the component belongs to."""
        return self.component.partition(".")[0]

    def __str__(self) -> str:
        stream = self.component.partition(".")[2]
        word = WORDS.get(self.family, self.family)
        what = f"{STREAMS.get(stream, stream)} stream" if stream else word
        if self.family == "lr":
            verdict = "LR off"
        elif self.redrawn and self.code == "rng-not-restored":
            return f"data drawn with different random numbers (the rows are those of step {self.expected})"
        elif self.family == "batch":
            verdict = " and ".join(code.replace("-", " ") for code in (self.code, *self.more))
        else:
            verdict = f"{word} not restored"
        return f"{verdict} ({what} {self._place()})"

    def _place(self) -> str:
        if self.found is None:
            return f"diverges at step {self.step}"
        if self.found:
            whose = f" of rank {self.whose}" if self.whose is not None else ""
            return f"is that{whose} of step {show_positions(self.found)}"
        return f"matches no step of the reference{self._tensors()}"

    def _tensors(self) -> str:
        """Which tensors differ, where not all of them do."""
        count = len(self.tensors)
        if not count or count == self.of:
            return ""
        names = ", ".join(self.tensors) if count <= 3 else f"the first {self.tensors[0]}"
        return f": {count} of {self.of} tensors differ{'s' if count == 1 else ''}, {names}"

    def to_json(self) -> dict[str, object]:
        """For the evidence."""
        found = list(self.found) if self.found is not None else None
        return {**vars(self), "found": found, "more": list(self.more), "tensors": list(self.tensors)}
