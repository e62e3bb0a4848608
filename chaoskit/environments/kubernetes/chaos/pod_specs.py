"""StressChaos, TimeChaos and DNSChaos: what happens to the processors, the memory, the clocks and the names of pods."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from chaoskit.environments.kubernetes.api_kinds import DNS_CHAOS, STRESS_CHAOS, TIME_CHAOS
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec, container_names, made
from chaoskit.errors import UsageError
from chaoskit.validation import check_choice, check_choices, check_number, check_strings, check_whole

CLOCKS = (
    "CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_PROCESS_CPUTIME_ID", "CLOCK_THREAD_CPUTIME_ID", "CLOCK_MONOTONIC_RAW",
    "CLOCK_REALTIME_COARSE", "CLOCK_MONOTONIC_COARSE", "CLOCK_BOOTTIME", "CLOCK_REALTIME_ALARM", "CLOCK_BOOTTIME_ALARM",
)  # fmt: skip
#: `?` stands for one character; `*`, in the end only, for the rest.
_PATTERN = re.compile(r"[A-Za-z0-9_?](?:[-A-Za-z0-9_.?]{0,251}[A-Za-z0-9_?])?\.?\*?")
_DAY = 86400.0


def stress(
    *, aim: Aim, cpu_workers: int = 0, cpu_load: int = 100, memory_workers: int = 0, memory: int | None = None,
    kill_score: int = 0, containers: Sequence[str] = (), seconds: float,
) -> ChaosSpec:  # fmt: skip
    """Start processes in the containers: `cpu_workers` of them use `cpu_load` percent of a processor each, and
    `memory_workers` hold `memory` bytes each. `kill_score` says how soon the kernel kills the latter for want of
    memory: at -1000 never, at 1000 first."""
    stressors: dict[str, Any] = {}
    if check_whole("stress", "cpu_workers", cpu_workers, least=0, most=8192):
        load = check_whole("stress", "cpu_load", cpu_load, least=1, most=100)
        stressors["cpu"] = {"workers": cpu_workers, "load": load}
    if check_whole("stress", "memory_workers", memory_workers, least=0, most=8192):
        # Without a size each would take all memory of the machine.
        size = check_whole("stress", "memory", memory, least=1, most=2**50)
        score = check_whole("stress", "kill_score", kill_score, least=-1000, most=1000)
        stressors["memory"] = {"workers": memory_workers, "size": f"{size}B", "oomScoreAdj": score}
    elif memory is not None:
        raise UsageError(f"stress: memory {memory!r} has no meaning without memory_workers: give their number")
    if not stressors:
        raise UsageError("stress: cpu_workers or memory_workers must be given: without any there is no stress")
    names = container_names("stress", containers)
    return made(STRESS_CHAOS, "stress", aim, {"stressors": stressors, **names}, seconds=seconds)


def clock_offset(
    *, aim: Aim, offset: float, clocks: Sequence[str] = ("CLOCK_REALTIME",), containers: Sequence[str] = (),
    seconds: float,
) -> ChaosSpec:  # fmt: skip
    """Let clocks be wrong by `offset` seconds, for the first process of a container and its children alone."""
    check_number("clock offset", "offset", offset, least=-3650 * _DAY, most=3650 * _DAY)
    if round(offset * 1000) == 0:
        raise UsageError(f"clock offset: offset must be a millisecond at least, forward or back, not {offset!r}")
    fields = {
        "timeOffset": f"{round(offset * 1000)}ms",
        "clockIds": list(check_choices("clock offset", "clocks", clocks, CLOCKS)),
        **container_names("clock offset", containers),
    }
    return made(TIME_CHAOS, "clock offset", aim, fields, seconds=seconds)


def wrong_names(
    *, aim: Aim, patterns: Sequence[str], action: Literal["error", "random"] = "error",
    containers: Sequence[str] = (), seconds: float,
) -> ChaosSpec:  # fmt: skip
    """Answer lookups of names that match one of the `patterns` with an error, or with a random address. It needs the
    name server of Chaos Mesh (`dnsServer.create=true` of its chart)."""
    check_choice("dns", "action", action, ("error", "random"))
    meant = check_strings("dns", "patterns", patterns)
    if not meant:
        raise UsageError("dns: patterns must have one at least: without any Chaos Mesh would hide every name")
    for pattern in meant:
        if not _PATTERN.fullmatch(pattern):
            raise UsageError(
                f"dns: patterns must be names with '?' for a character and '*' at the end alone, not {pattern!r}"
            )
    fields = {"action": action, "patterns": list(meant), **container_names("dns", containers)}
    return made(DNS_CHAOS, "dns", aim, fields, seconds=seconds)
