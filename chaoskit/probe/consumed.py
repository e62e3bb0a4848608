"""`Consumed`: the data that one step consumes, as what enters the outermost training forwards tells it.

Where some of them are given what a data loader has handed out, the others are given no data, but noise, or what another
model has made.
"""

from __future__ import annotations

from typing import Any

from chaoskit.fingerprint import Fingerprint
from chaoskit.probe.loading import Loading
from chaoskit.probe.samples import Samples


class Consumed:
    """Of one step of one rank; `loading` knows what the loaders hand out."""

    def __init__(self, loading: Loading) -> None:
        self._loading = loading
        self._handed_out = _Part()
        self._others = _Part()

    @property
    def samples(self) -> Samples:
        """The samples of the step."""
        return self._telling.samples

    @property
    def _telling(self) -> _Part:
        return self._handed_out if self._handed_out.batches else self._others

    def add(self, value: Any) -> bool:
        """One more micro-batch; whether it is the first of an epoch."""
        try:
            found, data, fingerprint = _read(value)
        except Exception:
            self._handed_out.samples.fail()
            self._others.samples.fail()
            raise
        origin = self._loading.origin(data)
        part = self._handed_out if origin.handed else self._others
        part.batches.append(fingerprint)
        # What else a module is given that goes on from a model's output belongs to samples which are known.
        if len(data) == len(found):
            part.samples.add(found, origin.rows)
        return origin.first

    def batch(self) -> Fingerprint | None:
        """All micro-batches together; None where there was none."""
        if not self._telling.batches:
            return None
        whole = Fingerprint()
        for part in self._telling.batches:
            whole.text(part.hexdigest())
            whole.reductions.extend(part.reductions)
        return whole


class _Part:
    def __init__(self) -> None:
        self.batches: list[Fingerprint] = []
        self.samples = Samples()


def _read(value: Any) -> tuple[list[Any], list[Any], Fingerprint]:
    """All tensors in what a model is given, those of them that are data, and their fingerprint."""
    found: list[Any] = []

    def collect(tensor: Any) -> bool:
        found.append(tensor)
        return True

    fingerprint = Fingerprint()
    fingerprint.value(value, skip=collect)
    # What carries a gradient was computed by the model (a loss module's input).
    data = [tensor for tensor in found if not tensor.requires_grad]
    if any(tensor.dim() for tensor in data):
        # Of whatever else a model is told (the number of the batch, a flag) it says nothing.
        fingerprint = Fingerprint()
    for tensor in data:
        fingerprint.tensor(tensor)
    return found, data, fingerprint
