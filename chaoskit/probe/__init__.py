"""The probe: the part of chaoskit that runs inside the ranks of an unmodified job, and records what they do.

Users need only `step`, and only for training loops whose optimizer steps torch's hooks cannot see.
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
    """Report that the optimizer is about to step, in a loop that torch's hooks cannot see.

    Call it after the backward pass and before the update. `loss` is a scalar tensor or a number, `batch` the data of
    the step; `model` and `optimizer` are modules, optimizers or state dicts. After the first call, steps that the hooks
    see are no longer counted. Outside a run of chaoskit it does nothing.
    """
    if "CHAOSKIT_RUN" not in os.environ:
        return
    from chaoskit.probe.session import session

    if session is not None and session.observer is not None:
        told = session.observer.told
        order = session.guard("step", told, loss=loss, batch=batch, model=model, optimizer=optimizer)
        if isinstance(order, BaseException):
            raise order
