"""`signal_wish`: what a batch job says of the signal that Slurm sends it before its end (`--signal` of sbatch)."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit.environments.slurm.submission import is_batch, script_options

_OPTION, _VARIABLE = "--signal", "SBATCH_SIGNAL"
_FORM = re.compile(r"(?:(?P<flags>[RB]{1,2}):)?(?:SIG)?(?P<name>[A-Za-z0-9]+)(?:@(?P<seconds>\d+))?")
#: Slurm's own default.
_SECONDS = 60


@dataclass(frozen=True)
class SignalWish:
    """`name` is the signal without SIG, or its number. It comes `seconds` before the time limit: to the batch script
    alone (`to_script`), or else to all steps and not to the script."""

    name: str
    seconds: int
    to_script: bool

    @property
    def signum(self) -> int:
        """The number of the signal; 0 for one that this machine does not know."""
        return int(self.name) if self.name.isdecimal() else int(getattr(signal, f"SIG{self.name}", 0))


def signal_wish(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> SignalWish | None:
    """The wish of a command, None if it has none. As in Slurm, an option of sbatch counts before the variable, and that
    before the script. A command that is not sbatch runs in an allocation to which the variable applies."""
    given = command[1:] if is_batch(command) else []
    in_scripts = [words for word in given if (words := script_options(cwd / word))]
    for words in ([*given], ([f"{_OPTION}={env[_VARIABLE]}"] if env.get(_VARIABLE) else []), *in_scripts):
        for word, following in zip(words, [*words, ""][1:], strict=True):
            name, equals, value = word.partition("=")
            found = _FORM.fullmatch(value if equals else following) if name == _OPTION else None
            if found is not None:
                seconds = int(found["seconds"]) if found["seconds"] else _SECONDS
                return SignalWish(found["name"].upper(), seconds, "B" in (found["flags"] or ""))
    return None
