"""`Aim`: which pods of one run a fault of Chaos Mesh hits: all that are selected, or some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.errors import UsageError
from chaoskit.validation import check_choice, check_whole

Mode = Literal["one", "all", "fixed", "fixed-percent", "random-max-percent"]
_MOST_PODS = 10**6
#: Modes without a value.
_PLAIN = ("one", "all")


@dataclass(frozen=True)
class Aim:
    """The running pods that `selector` matches at the moment of injection: one of them, all, a `fixed` number, a
    `fixed-percent` of them, or at most a percentage (`random-max-percent`). `value` is that number or percentage.

    Pods are chosen once: a pod that replaces a chosen one is not hit. Raises UsageError.
    """

    selector: RunSelector
    mode: Mode = "all"
    value: int | None = None

    def __post_init__(self) -> None:
        if type(self.selector) is not RunSelector:  # a look-alike could select anything
            raise UsageError(f"Aim: selector must be a RunSelector, not {self.selector!r}")
        check_choice("Aim", "mode", self.mode, get_args(Mode))
        if self.mode in _PLAIN:
            if self.value is not None:
                raise UsageError(f"Aim: value {self.value!r} has no meaning with mode {self.mode!r}: leave it out")
        else:
            check_whole("Aim", "value", self.value, least=1, most=_MOST_PODS if self.mode == "fixed" else 100)

    def as_fields(self) -> dict[str, Any]:
        """As fields of a spec."""
        value = {} if self.value is None else {"value": str(self.value)}
        return {"mode": self.mode, **value, "selector": self.selector.for_chaos_mesh()}

    def may_meet(self, other: Aim) -> bool:
        """Whether a pod may belong to both aims."""
        mine, others = self.selector.labels, other.selector.labels
        return all(mine[name] == others[name] for name in mine.keys() & others.keys())


def check_aim(where: str, argument: str, value: object) -> Aim:
    """Pods that a fault hits. Raises UsageError for what is no Aim."""
    if type(value) is not Aim:
        raise UsageError(f"{where}: {argument} must be an Aim, not {value!r}")
    return value
