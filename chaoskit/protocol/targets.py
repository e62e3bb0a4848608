"""Targets: where in a rank's training a number can be made wrong. `targets.gradient("blocks.0.*")`, or
"gradient:blocks.0.*".

Patterns are shell patterns (`*`, `?`, `[abc]`; case matters) over the names that modules have for their tensors,
without the prefixes of wrappers (DDP, FSDP, torch.compile).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from chaoskit.errors import UsageError
from chaoskit.validation import check_flag, check_pattern, check_text, check_whole, shown

#: By kind of target: its fields, in the order of the text form.
_FIELDS: dict[str, tuple[str, ...]] = {
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
#: The kinds of targets.
KINDS = tuple(_FIELDS)
#: The collectives whose payloads can be changed.
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast")
#: Kinds whose numbers change as a step's update is about to be taken; the others change in the step's forward, backward
#: or collectives.
HELD = ("parameter", "optimizer", "scaler", "lr")
#: Fields that the text form gives as a word.
_FLAGS = ("reduced", "sent")
#: Examples for kinds that need a field.
_EXAMPLES = {"activation": "activation:blocks.0.*", "collective": "collective:all_reduce:1"}


@dataclass(frozen=True)
class InjectionTarget:
    """One target. `kind` decides which fields have a meaning; raises UsageError for fields that are not valid."""

    kind: str
    pattern: str = "*"
    reduced: bool = False
    op: str = ""
    nth: int = 1
    sent: bool = False

    def __post_init__(self) -> None:
        check_text("into", "kind", self.kind, what="a kind of target such as 'loss'")
        if self.kind not in KINDS:
            raise UsageError(f"into: {_no_such('target', self.kind, KINDS)}")
        check_pattern(self.kind, "pattern", self.pattern, example="head.*")
        if ":" in self.pattern or self.pattern in set(_FLAGS).intersection(_FIELDS[self.kind]):
            what = f"the text form of a target could not tell {shown(self.pattern)} from its other words"
            raise UsageError(f"{self.kind}: pattern must be a pattern of names without a colon: {what}")
        check_text(self.kind, "op", self.op, what="the name of a collective")
        if self.kind == "collective" and self.op not in COLLECTIVES:
            raise UsageError(f"collective: op: {_no_such('collective', self.op, COLLECTIVES)}")
        check_whole(self.kind, "nth", self.nth, least=1)
        for flag in _FLAGS:
            check_flag(self.kind, flag, getattr(self, flag))

    @property
    def held(self) -> bool:
        """Whether its numbers exist between steps; they are changed as an update is about to be taken."""
        return self.kind in HELD

    @property
    def phrase(self) -> str:
        """For a sentence: 'the gradient of head.*, reduced'."""
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
        return {"kind": self.kind, **{name: getattr(self, name) for name in _FIELDS[self.kind]}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> InjectionTarget:
        """The target; raises UsageError for data that are not valid."""
        kind = data.get("kind")
        fields = _FIELDS.get(kind, ()) if isinstance(kind, str) else ()
        if other := sorted(set(data) - {"kind", *fields}):
            raise UsageError(f"{kind}: a target of this kind has no {', '.join(other)}")
        return cls(**{"kind": kind, **data})

    @classmethod
    def parse(cls, text: str) -> InjectionTarget:
        """The target of a text: `loss`, `gradient:head.*:reduced`, `collective:all_reduce:2:sent`.

        Raises UsageError for a text that is not valid.
        """
        kind, *words = text.split(":")
        flags = {word for word in words if word in _FLAGS and word in _FIELDS.get(kind, ())}
        given = [word for word in words if word not in flags]
        names = [name for name in _FIELDS.get(kind, ()) if name not in _FLAGS]
        if kind in _FIELDS and len(given) > len(names):
            raise UsageError(f"into: {text!r}: {given[len(names)]!r} is one word too many for {kind}")
        if kind in _EXAMPLES and not given:
            raise UsageError(f"into: {text!r}: say which, as in {_EXAMPLES[kind]!r}")
        found: dict[str, Any] = dict(zip(names, given, strict=False)) | dict.fromkeys(flags, True)
        if "nth" in found and found["nth"].isdecimal():
            found["nth"] = int(found["nth"])
        return cls(kind, **found)

    def __str__(self) -> str:
        words = [self.kind]
        for name in _FIELDS[self.kind]:
            value = getattr(self, name)
            words += [name] * value if name in _FLAGS else [str(value)]
        return ":".join(words)


def batch() -> InjectionTarget:
    """The arguments of the outermost forward of the training: the data."""
    return InjectionTarget("batch")


def activation(pattern: str) -> InjectionTarget:
    """The output of a module."""
    return InjectionTarget("activation", pattern=pattern)


def loss() -> InjectionTarget:
    """The loss, and through it every gradient."""
    return InjectionTarget("loss")


def gradient(pattern: str = "*", *, reduced: bool = False) -> InjectionTarget:
    """The gradient of a parameter: the rank's own, or, `reduced`, the one that the ranks have combined."""
    return InjectionTarget("gradient", pattern=pattern, reduced=reduced)


def parameter(pattern: str = "*") -> InjectionTarget:
    """A parameter; of a sharded one the part that the rank holds."""
    return InjectionTarget("parameter", pattern=pattern)


def optimizer(pattern: str = "*") -> InjectionTarget:
    """A tensor of the optimizer's state: `<parameter>.<key>`, such as `head.weight.exp_avg`."""
    return InjectionTarget("optimizer", pattern=pattern)


def scaler() -> InjectionTarget:
    """The scale of the gradient scaler."""
    return InjectionTarget("scaler")


def learning_rate() -> InjectionTarget:
    """The learning rate of every parameter group, for this step."""
    return InjectionTarget("lr")


def collective(op: str, *, nth: int = 1, sent: bool = False) -> InjectionTarget:
    """What this rank receives from the `nth` collective `op` of a step that carries floating-point numbers.

    With `sent`: what the rank contributes to it.
    """
    return InjectionTarget("collective", op=op, nth=nth, sent=sent)


def as_target(into: InjectionTarget | str) -> InjectionTarget:
    """The target in either form; raises UsageError for anything else."""
    if isinstance(into, str):
        return InjectionTarget.parse(into)
    if not isinstance(into, InjectionTarget):
        raise UsageError(f"into must be a target such as targets.loss() or its text form, not {shown(into)}")
    return into


def matching(pattern: str, names: tuple[str, ...] | list[str]) -> list[str]:
    """The names that a pattern matches, in their order."""
    return [name for name in names if fnmatchcase(name, pattern)]


def near(pattern: str, names: tuple[str, ...] | list[str]) -> str:
    """For a sentence: the names that resemble a pattern that matches none."""
    names = tuple(dict.fromkeys(names))
    close = get_close_matches(pattern, names, n=5, cutoff=0.4) or list(names[:5])
    if not close:
        return "there is none"
    return f"{'near' if len(close) < len(names) else 'there'}: {', '.join(close)}"


def _no_such(what: str, name: Any, names: tuple[str, ...]) -> str:
    close = get_close_matches(str(name), names, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"there is no {what} {name!r}; {meant}it is one of {', '.join(names)}"
