"""`ProbeError`: an exception of the probe itself, and which parts of the record it may have spoilt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chaoskit.analysis.record.history import History, lifetimes

#: What each call of the probe reads, by the name under which it reports an error. A name that is not here may have
#: touched everything.
_READS: dict[str, frozenset[str]] = {
    name: frozenset(parts.split())
    for name, parts in {
        "forward": "batch", "batch": "batch", "loading": "rows", "rows": "rows",
        "model": "model", "buffers": "buffers", "optimizer": "optimizer", "options": "options", "lr": "lr",
        "scaler": "scaler", "ema": "ema", "average": "ema", "rng": "rng", "begin": "rng",
        "backward": "loss", "scale": "loss", "nonfinite": "nonfinite",
        "save": "saves", "saved": "saves", "path": "saves", "content": "saves", "detours": "saves", "load": "saves",
        "import of torch.distributed.checkpoint": "saves", "import of safetensors.torch": "saves",
        "held": "parts", "parts": "parts", "replicas": "replicas", "import of numpy.random": "rng",
        # Names, versions and what the harness ordered: no verdict rests on them, or the fault was not observed.
        "tensors": "", "settings": "", "captures": "", "jit": "", "meeting": "", "imports": "", "uncaught": "",
        "end": "", "gate": "", "corrupt": "", "snapshot": "", "keep": "", "restore": "", "watch": "", "start": "",
        "rank": "", "group": "",
    }.items()
}  # fmt: skip

EVERYTHING = "everything"


@dataclass(frozen=True)
class ProbeError:
    """`where` and `error` say what failed, `times` how often, on `rank`. `control` is the number of the uninterrupted
    run in which it did, from 1; 0: the run itself."""

    where: str
    error: str
    rank: int
    times: int
    control: int = 0

    @property
    def touches(self) -> frozenset[str]:
        """The parts of the record that may be wrong: components, `rows`, `loss`, `saves`, ...; or `everything`."""
        return _READS.get(self.where, frozenset({EVERYTHING}))

    def __str__(self) -> str:
        where = f"control {self.control}, " if self.control else ""
        often = f" ({self.times} times)" if self.times > 1 else ""
        return f"{where}rank {self.rank}, {self.where}: {self.error}{often}"


def probe_errors(history: History, controls: Iterable[History] = ()) -> tuple[ProbeError, ...]:
    """Every error of the probe in a run and in its controls, alike ones together; those that touch nothing are left
    out."""
    found = [*_of(history, 0)]
    for number, control in enumerate(controls, start=1):
        found += _of(control, number)
    return tuple(one for one in found if one.touches)


def _of(history: History, control: int) -> Iterator[ProbeError]:
    seen = Counter((lifetime.rank, error) for _, lifetime in lifetimes(history) for error in lifetime.errors)
    for (rank, text), times in seen.items():
        where, separator, error = text.partition(": ")
        if separator:  # events that could not be written are gaps of the record
            yield ProbeError(where, error, rank, times, control)
