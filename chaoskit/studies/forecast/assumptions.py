"""What a forecast assumes where nothing was measured: each number with its default and its source.

A user replaces one with `--assume NAME=VALUE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from chaoskit.errors import UsageError
from chaoskit.validation import check_duration, check_number, check_size, near_miss, shown

#: How a number is written: a time ('90s', '1.5h'), bytes ('1TB'), bytes a second, a share from 0 to 1, a whole number,
#: a number, 'yes' or 'no'.
Kind = Literal["time", "size", "rate", "share", "count", "number", "switch"]
#: Bytes of the state of one parameter: weights of 2 bytes, and in 4 bytes a master copy and Adam's two moments.
_BYTES_A_PARAMETER = 2 + 4 + 4 + 4
_LARGEST_MODEL = 405e9
_GUESS = "a guess, not a published number"


@dataclass(frozen=True)
class Assumption:
    """A number that a forecast needs. `default` may depend on the number of GPUs; times are seconds."""

    name: str
    kind: Kind
    text: str
    default: float | Callable[[int], float]
    source: str
    most: float = 1e15

    def default_for(self, gpus: int) -> float:
        """The default for a job of so many GPUs."""
        return self.default(gpus) if callable(self.default) else self.default

    def parse(self, text: str) -> float:
        """Read a value as a user writes it; raises UsageError, naming the assumption."""
        where = "--assume"
        if self.kind == "time":
            # check_duration refuses 0, which may well be meant here.
            value = 0.0 if text.strip() in ("0", "0s") else check_duration(where, self.name, text)
        elif self.kind in ("size", "rate"):
            value = float(check_size(where, self.name, text))
        elif self.kind == "switch":
            if text not in ("yes", "no"):
                raise UsageError(f"{where}: {self.name} must be yes or no, not {shown(text)}")
            value = float(text == "yes")
        else:
            try:
                number: object = int(text) if self.kind == "count" else float(text)
            except ValueError:
                number = text
            value = check_number(where, self.name, number, least=0, most=1 if self.kind == "share" else self.most)
        if value > self.most:
            raise UsageError(f"{where}: {self.name} must be at most {self.shown(self.most)}, not {shown(text)}")
        return value

    def shown(self, value: float) -> str:
        """A value as a user writes it."""
        match self.kind:
            case "time":
                return duration(value)
            case "size":
                return size(value)
            case "rate":
                return size(value) + "/s"
            case "share":
                return f"{100 * value:.3g} %"
            case "switch":
                return "yes" if value else "no"
        return f"{value:,.4g}" if self.kind == "number" else f"{value:,.0f}"

    def written(self, value: float) -> str:
        """The argument of `--assume` that states this value."""
        match self.kind:
            case "time":
                text = f"{value:g}s"
            case "size" | "rate":
                text = size(value)
            case "switch":
                text = self.shown(value)
            case _:
                text = f"{value:g}"
        return f"--assume {self.name}={text}"


def duration(seconds: float) -> str:
    """Seconds for people, with one unit: '90 s', '12 min', '3.5 h', '4 days'."""
    for unit, of, until in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 48 * 3600)):
        if seconds < until:
            return f"{seconds / of:.3g} {unit}"
    days = seconds / 86400
    return f"{days:.3g} days" if days < 100 else f"{days:,.0f} days"


def size(count: float) -> str:
    """Bytes with one unit of a thousand, as `check_size` reads them."""
    for unit, of in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= of:
            return f"{count / of:,.4g}{unit}" if count < 1e15 else f"{count / of:,.0f}{unit}"
    return f"{count / 1e3:.4g}KB"


def _every(*given: Assumption) -> Mapping[str, Assumption]:
    return {each.name: each for each in given}


ASSUMPTIONS = _every(
    Assumption("interval", "time", "training between two checkpoints, today (also --interval)", 3600.0, _GUESS, 1e8),
    Assumption("checkpoint-size", "size", "bytes of one checkpoint",
               lambda gpus: min(1e9 * gpus, _LARGEST_MODEL * _BYTES_A_PARAMETER),
               "a guess: 1 GB for each GPU, at most that of 405 billion parameters of 14 bytes", 1e18),
    Assumption("bandwidth", "rate", "bytes a second that the storage writes and reads for the whole job",
               lambda gpus: 2e12 / 16_384 * gpus,
               "Llama 3: 2 TB/s sustained for 16,384 GPUs (The Llama 3 Herd of Models, 2024)", 1e18),
    Assumption("asynchronous", "switch", "steps go on while a checkpoint is written", 0.0, _GUESS),
    Assumption("async-blocking", "time", "how long an asynchronous save holds up the steps", 2.0, _GUESS, 1e8),
    Assumption("memory-interval", "time", "training between two copies in the memory of other nodes (0: none)", 0.0,
               "none unless you state it", 1e8),
    Assumption("memory-blocking", "time", "for how long such a copy holds up the steps", 1.0, _GUESS, 1e8),
    Assumption("crash-detection", "time", "from the end of a process until all ranks have stopped", 60.0, _GUESS, 1e8),
    Assumption("hang-detection", "time", "until ranks that wait for a lost node or link give up", 600.0,
               "torch.distributed: default timeout of NCCL collectives, 10 minutes", 1e8),
    Assumption("silent-detection", "time", "mean time until silent corruption is found", 4 * 3600.0, _GUESS, 1e8),
    Assumption("relaunch", "time", "from the stopped job to ranks that begin to load, nodes apart", 300.0, _GUESS, 1e8),
    Assumption("relaunch-growth", "time", "growth of a measured relaunch with each doubling of the GPUs", 30.0, _GUESS,
               1e8),
    Assumption("warm-relaunch", "time", "a relaunch with processes that are kept (an improvement)", 60.0, _GUESS, 1e8),
    Assumption("failed-recoveries", "share", "recoveries that need a person", 3 / 419,
               "Llama 3: three of 419 interruptions needed significant manual work"),
    Assumption("person", "time", "how much longer such a recovery takes", 3600.0, _GUESS, 1e8),
    Assumption("gpus-per-node", "count", "GPUs of a node", 8.0, "Llama 3's servers; most servers of today", 1024),
    Assumption("spares", "count", "spare nodes", lambda gpus: float(-(-gpus // 160)), "a guess: one for 20 nodes", 1e7),
    Assumption("spare-joins", "time", "until a spare node has joined", 120.0, _GUESS, 1e8),
    Assumption("repair", "time", "until a lost node is back", 24 * 3600.0, _GUESS, 1e9),
    Assumption("elastic", "switch", "the job trains on with fewer nodes where no spare is free", 0.0, _GUESS),
    Assumption("shape", "number", "shape of Weibull lifetimes, from 0.5 to 10: under 1 failures come early", 1.0,
               "1, exponential: the closed forms assume it", 10),
    Assumption("rack-mtbf", "time", "mean time between failures of a whole rack or its switch (0: none)", 0.0,
               "none unless you state it", 1e12),
    Assumption("nodes-per-rack", "count", "nodes that fail with a rack", 4.0, _GUESS, 1024),
    Assumption("spot-mtbf", "time", "mean time until a spot node is reclaimed (0: no spot nodes)", 0.0,
               "none unless you state it", 1e12),
    Assumption("notice", "time", "how long before a reclaim the node is told", 120.0,
               "AWS: a spot instance is told two minutes before", 1e6),
    Assumption("keep", "count", "checkpoints that the job keeps", 3.0, _GUESS, 1e6),
    Assumption("delta-share", "share", "size of a delta, as a share of a whole checkpoint", 0.3, _GUESS),
    Assumption("storage-price", "number", "USD for a terabyte and month", 23.0,
               "AWS S3 Standard: USD 0.023 for a gigabyte and month", 1e6),
)  # fmt: skip


def parse(given: Sequence[str]) -> dict[str, float]:
    """Read the values of `--assume NAME=VALUE`; raises UsageError for an unknown name or a value that cannot be."""
    found: dict[str, float] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not value.strip():
            raise UsageError(f"--assume: write NAME=VALUE, for example relaunch=5m, not {shown(text)}")
        if name not in ASSUMPTIONS:
            raise UsageError(f"--assume: there is no assumption {shown(name)}{near_miss(name, ASSUMPTIONS)}")
        if name in found:
            raise UsageError(f"--assume: {name} is given twice: leave one out")
        found[name] = ASSUMPTIONS[name].parse(value.strip())
    return found
