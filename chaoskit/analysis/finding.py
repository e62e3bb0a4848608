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

    `missing` are tensors that the reference has and the run lacks. `given` are names of parameters whose state is
    that of another one, with the name of that one. `harmless`: no loss and no batch differed from the reference up to
    that step, the last one, although the stream was drawn from; None where something did, or nothing can be said.
    `idle`: nobody uses what is drawn from the stream. `since` is the last step before at which the component was
    recorded, if it was not in those in between (0 for none).
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
    missing: tuple[str, ...] = ()
    given: tuple[tuple[str, str], ...] = ()
    harmless: int | None = None
    idle: bool = False
    since: int | None = None

    @property
    def advice(self) -> str:
        """What to change, where more is known than the code; else empty. A clause without its full stop."""
        word = WORDS.get(self.family, self.family)
        if self.whose is not None and self.family == "rng":
            return (
                f"the streams were loaded, but those of rank {self.whose}: save the streams of each rank, and let each "
                "rank load its own"
            )
        if self.whose is not None and self.family == "batch":
            return (
                f"the position in the data, or the share of it, is that of rank {self.whose}: let each rank save and "
                "load its own, and pass its own rank to the sampler"
            )
        if self.whose is not None and self.code != "checkpoint-unfaithful":
            return (
                f"the {word} was loaded, but that of rank {self.whose}: let each rank save and load its own, or make "
                "it equal on all ranks before it is saved (broadcast it, or average it over the ranks)"
            )
        if self.given and self.component == "optimizer":
            return (
                "load_state_dict assigns the state by position: build the groups in the same order at each start, or "
                "load by the names of the parameters (torch.distributed.checkpoint.state_dict does)"
            )
        return ""

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
            averaged = self.code == "ema-not-restored" and self.family == "model"
            verdict = f"{'average in the model' if averaged else word} not restored"
        if self.code == "checkpoint-unfaithful":
            return f"{verdict} (the save of step {self.expected} held another {what} than the run did{self._tensors()})"
        if self.idle:
            return f"{verdict} ({what} {self.place}), but nothing that was trained on was drawn from it"
        if self.harmless is not None:
            return (
                f"{verdict} ({what} {self.place}), but no loss and no batch differed through step {self.harmless}"
            )
        return f"{verdict} ({what} {self.place})"

    @property
    def place(self) -> str:
        """'is that of step 0': where the component is instead."""
        if self.found is None:
            earlier = (
                "" if self.since is None else f", or earlier{f', after step {self.since}' if self.since else ''}"
            )
            return f"diverges at step {self.step}{earlier}"
        if self.found:
            whose = f" of rank {self.whose}" if self.whose is not None else ""
            return f"is that{whose} of step {show_positions(self.found)}{self._tensors()}"
        return f"matches no step of the reference{self._tensors()}"

    def _tensors(self) -> str:
        """Which tensors differ, where not all of them do, and whose they are."""
        count = len(self.tensors)
        parts = []
        if count and count != self.of:
            names = ", ".join(self.tensors) if count <= 3 else f"the first {self.tensors[0]}"
            parts.append(f"{count} of {self.of} tensors differ{'s' if count == 1 else ''}, {names}")
        if self.missing:
            number = len(self.missing)
            are = "tensor is" if number == 1 else "tensors are"
            parts.append(f"{number} {are} missing, {'' if number == 1 else 'the first '}{self.missing[0]}")
        if self.given:
            name, other = self.given[0]
            more = f", and so on for {len(self.given)} parameters" if len(self.given) > 1 else ""
            parts.append(
                f"{'the state of ' if self.component == 'optimizer' else ''}{name} is that of {other}{more}"
            )
        return f": {'; '.join(parts)}" if parts else ""

    def to_json(self) -> dict[str, object]:
        """For the evidence. What few findings have is left out where there is nothing to tell."""
        found = list(self.found) if self.found is not None else None
        rare = {
            "missing": list(self.missing),
            "given": [list(pair) for pair in self.given],
            "harmless": self.harmless,
            "idle": self.idle,
            "since": self.since,
        }
        kept = {name: value for name, value in rare.items() if value not in ([], None, False)}
        usual = {name: value for name, value in vars(self).items() if name not in rare}
        return {**usual, "found": found, "more": list(self.more), "tensors": list(self.tensors), **kept}
