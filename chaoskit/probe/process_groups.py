"""Hooks into `init_process_group`: stops the rank before its first collective, and learns which rank it is."""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from chaoskit.probe.captures import capture

if TYPE_CHECKING:
    from chaoskit.probe.parts import StepObserver
    from chaoskit.probe.session import ProbeSession


def hook_process_groups(session: ProbeSession, observer: StepObserver, torch: Any) -> None:
    """Stop before the first collective, and learn the rank of a process whose environment does not state it."""
    distributed = torch.distributed
    if not distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    original = distributed_c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        begun = session.guard("rank", _begin_rank, session, *args, **kwargs)
        session.guard("meeting", _record_meeting, session, *args, **kwargs)
        if begun and session.gate is not None:
            order = session.guard("start", session.gate.arrive, "start", observer.steps)
            if isinstance(order, BaseException):
                raise order
        result = original(*args, **kwargs)
        session.guard("rank", _learn_rank, session, distributed)
        if session.forked and (told := os.environ.get("CHAOSKIT_CAPTURES")):
            session.guard("captures", capture, json.loads(told), distributed.group.WORLD)
        return result

    distributed_c10d.init_process_group = init_process_group
    distributed.init_process_group = init_process_group
    mesh = sys.modules.get("torch.distributed.device_mesh")
    if mesh is not None and hasattr(mesh, "init_process_group"):
        mesh.__dict__["init_process_group"] = init_process_group


def _begin_rank(
    session: ProbeSession, backend: Any = None, init_method: Any = None, timeout: Any = None,
    world_size: int = -1, rank: int = -1, *_: Any, **__: Any,
) -> bool:  # fmt: skip
    """Begin the record if the environment or the arguments state the rank before the group is made; else False."""
    if "RANK" in os.environ:
        return session.open()
    return 0 <= rank < world_size and session.open(rank=int(rank), world_size=int(world_size))


def _record_meeting(
    session: ProbeSession, backend: Any = None, init_method: Any = None, *_: Any, **__: Any
) -> None:
    """Record the rendezvous address of the ranks."""
    method = str(init_method or "env://")
    at, port = urlsplit(method).hostname, urlsplit(method).port
    if method.startswith("env://"):
        at, port = os.environ.get("MASTER_ADDR"), int(os.environ.get("MASTER_PORT", "0"))
    session.write("meeting", at=at or "", port=port or 0)


def _learn_rank(session: ProbeSession, distributed: Any) -> None:
    if session.open(rank=distributed.get_rank(), world_size=distributed.get_world_size()):
        backend, timeout = str(distributed.get_backend()), session.guard("group", _timeout, distributed)
        session.write("group", backend=backend, timeout=timeout)


def _timeout(distributed: Any) -> float | None:
    """Seconds after which a collective of the default group gives up; None where the backend does not state it."""
    group = distributed.group.WORLD
    found = [group._get_backend(device).options._timeout.total_seconds() for device in group._device_types]
    return min(found, default=None)
