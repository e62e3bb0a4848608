"""The probe: what chaoskit runs inside the ranks of an unmodified job, to record what they do.

Users need nothing of it. `step` serves training loops whose optimizer torch's hooks cannot see; outside a run of
chaoskit it does nothing.
"""

from __future__ import annotations

import os
from typing import Any


def step(
    *,
    loss: Any = None,
    batch: Any = None,
    model: Any = None,
    optimizer: Any = None,
) -> None:
    """Say that the optimizer is about to step, from a loop that torch's hooks cannot see.

    Call it after the backward pass and before the update. `loss` is a scalar tensor or a number, `batch` what the step
    consumed, `model` and `optimizer` anything made of tensors: modules, optimizers, state dicts. From the first call
    on, steps that the hooks see are no longer counted. Does nothing outside a run of chaoskit.
    """
    if "CHAOSKIT_RUN" not in os.environ:
        return
    from chaoskit.probe.session import session

    if session is not None and session.observer is not None:
        told = session.observer.told
        order = session.guard("step", told, loss=loss, batch=batch, model=model, optimizer=optimizer)
        if isinstance(order, BaseException):
            raise order
