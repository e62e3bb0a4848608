"""The rules that only the webhook of Chaos Mesh knows, and how it reads durations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"([0-9]*\.?[0-9]+)(ns|us|µs|ms|s|m|h)"
_RATE = re.compile(r"[0-9]+\s*([kmgt]?bit|[kmgt]?bps)", re.IGNORECASE)


def go_seconds(text: str) -> float:
    """A duration as Go reads it; raises ValueError for what is none."""
    if not re.fullmatch(f"[-+]?({_PART})+", text):
        raise ValueError(f'time: invalid duration "{text}"')
    seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))
    return -seconds if text.startswith("-") else seconds


def refused(kind: str, before: Json | None, obj: Json) -> str | None:
    """Why the webhook does not admit an object; None where it does."""
    if before is not None and before["spec"] != obj["spec"]:
        return "Cannot update chaos spec"
    return next(_broken(kind, obj["spec"]), None)


def _broken(kind: str, spec: Json) -> Iterator[str]:
    for path, side in (("spec", spec), ("spec.target", spec.get("target"))):
        yield from _selector(path, side or {})
    for name in ("duration", "delay", "timeOffset"):
        if isinstance(spec.get(name), str):
            yield from _duration(f"spec.{name}", spec[name])
    if kind == "IOChaos" and spec["action"] == "fault" and not spec.get("errno"):
        yield "spec.errno: Invalid value: 0: action fault: errno 0 is not supported"
    if kind == "IOChaos" and not 0 <= spec.get("percent", 100) <= 100:
        yield "spec.percent: Invalid value: percent field should be in 0-100"
    if kind == "StressChaos" and not spec.get("stressors") and not spec.get("stressngStressors"):
        yield "spec: Invalid value: missing stressors"
    if kind == "NetworkChaos":
        yield from _network(spec)


def _selector(path: str, side: Json) -> Iterator[str]:
    mode, value = side.get("mode"), side.get("value", "")
    if mode in ("fixed", "fixed-percent", "random-max-percent"):
        most = 100 if "percent" in mode else 10**9
        if not re.fullmatch(r"-?[0-9]+", value) or not 0 < int(value) <= most:
            yield f"{path}.value: Invalid value: {value!r} with mode:{mode}"


def _duration(path: str, text: str) -> Iterator[str]:
    try:
        go_seconds(text)
    except ValueError as error:
        yield f"{path}: Invalid value: {text!r}: parse duration field error: {error}"


def _network(spec: Json) -> Iterator[str]:
    if spec["action"] != "partition" and spec.get("direction", "to") != "to" and not spec.get("target"):
        yield "spec.direction: Invalid value: `from` and `both` direction cannot be used when targets is empty"
    for name in ("bandwidth", "rate"):
        if name in spec and not _RATE.fullmatch(spec[name]["rate"]):
            yield f"spec.{name}.rate: Invalid value: {spec[name]['rate']!r}: parse rate field error:invalid unit"
    for name in ("loss", "duplicate", "corrupt"):
        for key in (name, "correlation"):
            try:
                float(spec.get(name, {}).get(key, "0"))
            except ValueError:
                yield f"spec.{name}.{key}: Invalid value: parse correlation field error"
