"""`Consumed`: the data that one step consumes, seen in the arguments of the outermost training forwards.

If some forwards get a batch of a data loader, the others get no data, but noise or the output of another model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaoskit.probe.loading import Loading
from chaoskit.probe.samples import Samples
from chaoskit.probe.taking import Taking
from chaoskit.protocol.fingerprint import Fingerprint, is_tensor


class Consumed:
    """The data of one step of one rank; `loading` knows the batches of the data loaders, `taking` the rows that the job
    takes itself, and those of batches to which it adds noise."""

    def __init__(self, loading: Loading, taking: Taking) -> None:
        self._loading, self._taking = loading, taking
        self._handed_out = _Part()
        self._others = _Part()

    @property
    def samples(self) -> Samples:
        """The samples of the step."""
        return self._chosen.samples

    @property
    def _chosen(self) -> _Part:
        return self._handed_out if self._handed_out.batches else self._others

    def add(self, value: Any) -> bool:
        """Add a micro-batch; returns whether it is the first of an epoch."""
        try:
            found, data, fingerprint = _read(value)
        except Exception:
            self._handed_out.samples.fail()
            self._others.samples.fail()
            raise
        origin = self._loading.origin(data)
        part = self._handed_out if origin.handed else self._others
        part.batches.append(fingerprint)
        # The other inputs of a module that gets a model's output belong to samples that are known.
        if len(data) == len(found):
            part.samples.add(found, origin.rows or self._taking.origin(data))
        return origin.first

    def batch(self) -> Fingerprint | None:
        """The fingerprint of all micro-batches; None if there was none."""
        if not self._chosen.batches:
            return None
        whole = Fingerprint()
        for part in self._chosen.batches:
            whole.text(part.hexdigest())
            whole.reductions.extend(part.reductions)
        return whole


def learns(value: Any) -> bool:
    """Whether a tensor in the arguments or in the result of a module requires a gradient."""
    if is_tensor(value):
        return bool(value.requires_grad)
    if isinstance(value, Mapping):
        return any(map(learns, value.values()))
    return isinstance(value, (list, tuple)) and any(map(learns, value))


def prepares(module: Any, value: Any) -> bool:
    """Whether the module, with these arguments, may only prepare data, as a transform does: nothing in it or before it
    can learn. Its result tells."""
    return next(module.parameters(), None) is None and not learns(value)


class _Part:
    def __init__(self) -> None:
        self.batches: list[Fingerprint] = []
        self.samples = Samples()


def _read(value: Any) -> tuple[list[Any], list[Any], Fingerprint]:
    """All tensors in the arguments of a model, those that are data, and the fingerprint of these."""
    found: list[Any] = []

    def collect(tensor: Any) -> bool:
        found.append(tensor)
        return True

    fingerprint = Fingerprint()
    fingerprint.value(value, skip=collect)
    # A tensor that requires a gradient was computed by the model (the input of a loss module).
    data = [tensor for tensor in found if not tensor.requires_grad]
    if any(tensor.dim() for tensor in data):
        # Then other arguments (the number of the batch, a flag) do not count.
        fingerprint = Fingerprint()
    for tensor in data:
        fingerprint.tensor(tensor)
    return found, data, fingerprint
