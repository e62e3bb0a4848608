"""`Finding`: one component of one rank that is not what it should be, in words."""

from __future__ import annotations

from dataclasses import dataclass

from chaoskit.alignment import show_positions

#: How tables and sentences name what is not called by its own name.
WORDS = {"lr": "LR", "rng": "RNG", "ema": "EMA", "batch": "data", "options": "optimizer options"}
STREAMS = {"torch": "torch CPU"}


def many_ranks(*sizes: int) -> str:
    """'1 rank', '1 and 3 ranks'."""
    return f"{' and '.join(map(str, sizes))} rank{'' if sizes == (1,) else 's'}"


@dataclass(frozen=True)
class Finding:
    """At true step `step` the component should be at position `expected`, and is at `found` (nowhere in the reference,
    if empty; None where that was not looked up).

    `more` are further codes. `tensors` names the tensors that differ, of `of` that were compared. `whose` is the rank
    that has in the reference what this one has here. `redrawn`: a batch is made of the right rows of the data set, in
    their order, and what was made of them is found nowhere in the reference: random numbers went into it.
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
            return f"data drawn with other random numbers (its rows are those of step {self.expected})"
        elif self.family == "batch":
            verdict = " and ".join(code.replace("-", " ") for code in (self.code, *self.more))
        else:
            verdict = f"{word} not restored"
        return f"{verdict} ({what} {self._place()})"

    def _place(self) -> str:
        if self.found is None:
            return f"parts at step {self.step}"
        if self.found:
            whose = f" of rank {self.whose}" if self.whose is not None else ""
            return f"is that{whose} of step {show_positions(self.found)}"
        return f"is none that the reference has{self._tensors()}"

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
