"""What becomes of each wrong value of each argument of each public callable."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from chaoskit.errors import UsageError
from chaoskit.validation import shown
from tests.arguments.calls import Call
from tests.arguments.fitting import fits
from tests.arguments.values import VALUES

#: The two ways in which a call may end, and those in which it may not.
REFUSED, ACCEPTED = "refused by name", "accepted"
RAW, UNNAMED, UNFIT = "another exception", "refused without its name", "accepted although it does not fit"
GOOD = (REFUSED, ACCEPTED)


@dataclass(frozen=True)
class Ending:
    """How one call ended, and what it said."""

    call: str
    argument: str
    value: str
    how: str
    said: str = ""

    def __str__(self) -> str:
        return f"{self.call}({self.argument}: {self.value}): {self.how}: {self.said[:200]}"


def endings(call: Call) -> Iterator[Ending]:
    """Each argument with each value, the other arguments being right."""
    for argument in call.hints:
        if argument == "return":
            continue
        for name, value in VALUES.items():
            found = ending(call, argument, value, name)
            if found is not None:
                yield found


def ending(call: Call, argument: str, value: object, name: str = "") -> Ending | None:
    """The argument with one value; None where that would run something."""
    fit = fits(value, call.hints[argument])
    if fit and call.runs:
        return None
    how, said = _ending(call, argument, value, fit)
    return Ending(call.name, argument, name or shown(value), how, said)


def _ending(call: Call, argument: str, value: object, fit: bool) -> tuple[str, str]:
    try:
        call(argument, value)
    except UsageError as error:
        word = call.known_as.get(argument, argument)
        return (REFUSED if re.search(rf"\b({word})\b", str(error)) else UNNAMED), str(error)
    except Exception as error:
        return RAW, f"{type(error).__name__}: {error}"
    return (ACCEPTED if fit else UNFIT), ""
