"""Where in a rank's training a number can be made wrong: `places.gradient("blocks.0.*")`, or "gradient:blocks.0.*".

Patterns are shell patterns (`*`, `?`, `[abc]`; case counts) over the names by which the modules know what they hold,
without what wrappers (DDP, FSDP, torch.compile) put in front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from chaoskit.errors import UsageError

#: Per kind of place what says more of it, in the order of the text form.
_SAYS: dict[str, tuple[str, ...]] = {
    "batch": (),
    "activation": ("pattern",),
    "loss": (),
    "gradient": ("pattern", "reduced"),
    "parameter": ("pattern",),
    "optimizer": ("pattern",),
    "scaler": (),
    "lr": (),
    "collective": ("op", "nth", "sent"),
}
#: The kinds of places.
KINDS = tuple(_SAYS)
#: The collectives whose payloads can be reached.
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast")
#: Kinds that are struck as a step's update is about to be taken; the others in the step's forward, backward or
#: collectives.
HELD = ("parameter", "optimizer", "scaler", "lr")
#: What the text form says of a kind as a word: it is there or not.
_FLAGS = ("reduced", "sent")
#: Of kinds that must say which.
_EXAMPLES = {"activation": "activation:blocks.0.*", "collective": "collective:all_reduce:1"}


@dataclass(frozen=True)
class Place:
    """One place. Which fields mean something follows from `kind`; raises UsageError for what cannot be."""

    kind: str
    pattern: str = "*"
    reduced: bool = False
    op: str = ""
    nth: int = 1
    sent: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"into: {_no_such('place', self.kind, KINDS)}")
        if not isinstance(self.pattern, str) or not self.pattern:
            raise UsageError(f"{self.kind}: pattern must be a shell pattern over names, not {self.pattern!r}")
        if self.kind == "collective":
            if self.op not in COLLECTIVES:
                raise UsageError(f"collective: op: {_no_such('collective', self.op, COLLECTIVES)}")
            if type(self.nth) is not int or self.nth < 1:
                raise UsageError(f"collective: nth counts from 1 within the step, not {self.nth!r}")
        for flag in _FLAGS:
            if type(getattr(self, flag)) is not bool:
                raise UsageError(f"{self.kind}: {flag} must be True or False, not {getattr(self, flag)!r}")

    @property
    def held(self) -> bool:
        """Whether it lies between steps, and is struck as an update is about to be taken."""
        return self.kind in HELD

    @property
    def phrase(self) -> str:
        """For a sentence: "the gradient of head.*, reduced"."""
        match self.kind:
            case "collective":
                side = "sent to" if self.sent else "received from"
                return f"what is {side} {self.op} {self.nth} of the step"
            case "lr":
                return "the learning rate"
            case "optimizer":
                return f"the optimizer's {self.pattern}"
            case "activation" | "gradient" | "parameter":
                what = {"activation": "the output of", "gradient": "the gradient of"}.get(
                    self.kind, "the parameter"
                )
                return f"{what} {self.pattern}{', reduced' if self.reduced else ''}"
        return f"the {self.kind}"

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {"kind": self.kind, **{name: getattr(self, name) for name in _SAYS[self.kind]}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Place:
        """Raises UsageError for what is none."""
        kind = data.get("kind")
        says = _SAYS.get(kind, ()) if isinstance(kind, str) else ()
        if other := sorted(set(data) - {"kind", *says}):
            raise UsageError(f"{kind}: a place of this kind has no {', '.join(other)}")
        return cls(**{"kind": kind, **data})

    @classmethod
    def parse(cls, text: str) -> Place:
        """The text form: `loss`, `gradient:head.*:reduced`, `collective:all_reduce:2:sent`.

        Raises UsageError for what is none.
        """
        kind, *words = text.split(":")
        flags = {word for word in words if word in _FLAGS and word in _SAYS.get(kind, ())}
        given = [word for word in words if word not in flags]
        names = [name for name in _SAYS.get(kind, ()) if name not in _FLAGS]
        if kind in _SAYS and len(given) > len(names):
            raise UsageError(f"into: {text!r}: there is no place for {given[len(names)]!r}")
        if kind in _EXAMPLES and not given:
            raise UsageError(f"into: {text!r}: say which, as in {_EXAMPLES[kind]!r}")
        told: dict[str, Any] = dict(zip(names, given, strict=False)) | dict.fromkeys(flags, True)
        if "nth" in told and told["nth"].isdecimal():
            told["nth"] = int(told["nth"])
        return cls(kind, **told)

    def __str__(self) -> str:
        words = [self.kind]
        for name in _SAYS[self.kind]:
            value = getattr(self, name)
            words += [name] * value if name in _FLAGS else [str(value)]
        return ":".join(words)


def batch() -> Place:
    """The arguments of the outermost training forward: the data."""
    return Place("batch")


def activation(pattern: str) -> Place:
    """The output of a module."""
    return Place("activation", pattern=pattern)


def loss() -> Place:
    """The loss, and by it every gradient."""
    return Place("loss")


def gradient(pattern: str = "*", *, reduced: bool = False) -> Place:
    """The gradient of a parameter: this rank's own, or, `reduced`, what the ranks have made of theirs."""
    return Place("gradient", pattern=pattern, reduced=reduced)


def parameter(pattern: str = "*") -> Place:
    """A parameter, of a sharded one the part that the rank holds."""
    return Place("parameter", pattern=pattern)


def optimizer(pattern: str = "*") -> Place:
    """A tensor that the optimizer keeps: `<parameter>.<key>`, such as `head.weight.exp_avg`."""
    return Place("optimizer", pattern=pattern)


def scaler() -> Place:
    """The scale of the gradient scaler."""
    return Place("scaler")


def learning_rate() -> Place:
    """The learning rate of every parameter group, for this step."""
    return Place("lr")


def collective(op: str, *, nth: int = 1, sent: bool = False) -> Place:
    """What this rank receives from the `nth` collective `op` of a step that carries floating-point numbers.

    `sent`: what it gives to it instead.
    """
    return Place("collective", op=op, nth=nth, sent=sent)


def place(into: Place | str) -> Place:
    """`into` as a Place, whichever form it has; raises UsageError for what is none."""
    if isinstance(into, str):
        return Place.parse(into)
    if not isinstance(into, Place):
        raise UsageError(f"into: a place such as places.loss() or its text form, not {into!r}")
    return into


def matching(pattern: str, names: tuple[str, ...] | list[str]) -> list[str]:
    """The names that a pattern matches, in their order."""
    return [name for name in names if fnmatchcase(name, pattern)]


def near(pattern: str, names: tuple[str, ...] | list[str]) -> str:
    """For a sentence: the names that come near a pattern which matches none."""
    names = tuple(dict.fromkeys(names))
    close = get_close_matches(pattern, names, n=5, cutoff=0.4) or list(names[:5])
    if not close:
        return "there is none"
    return f"{'near' if len(close) < len(names) else 'there'}: {', '.join(close)}"


def _no_such(what: str, name: Any, names: tuple[str, ...]) -> str:
    close = get_close_matches(str(name), names, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"there is no {what} {name!r}; {meant}it is one of {', '.join(names)}"
