"""Validates what a test hands over: jobs, faults and checks. The usual slips get the line that was meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chaoskit import checks, faults
from chaoskit.errors import UsageError
from chaoskit.faults import Fault
from chaoskit.job import Job
from chaoskit.validation import check_instance, shown


def check_job(where: str, job: object) -> Job:
    """A job; raises UsageError for anything else."""
    return check_instance(where, "job", job, Job, example="as Job('train.py', ['--out', '{out}'])")


def check_faults(where: str, given: Sequence[object]) -> None:
    """Raises UsageError for anything that is no fault."""
    for one in given:
        if not isinstance(one, Fault):
            slip = _slip(where, one, "faults", faults.REGISTRY)
            what = slip or f"must be of chaoskit.faults, as faults.kill(rank=1).at_step(25), not {shown(one)}"
            raise UsageError(f"{where}: faults: {what}")


def check_checks(where: str, given: Sequence[object]) -> None:
    """Raises UsageError for anything that is no check: neither one of `chaoskit.checks` nor alike."""
    for one in given:
        alike = callable(one) and hasattr(one, "to_json") and isinstance(getattr(one, "name", None), str)
        if isinstance(one, type) or not alike:
            slip = _slip(where, one, "checks", checks.REGISTRY)
            what = slip or f"must be of chaoskit.checks, as checks.completed(), or like Check, not {shown(one)}"
            raise UsageError(f"{where}: checks: {what}")


def _slip(where: str, one: object, package: str, registry: Mapping[str, Callable[..., Any]]) -> str:
    """What was meant: a function without its parentheses, or a list without its star."""
    for make in registry.values():
        if one is make:
            return f"{package}.{make.__name__} needs parentheses: {package}.{make.__name__}()"
    if isinstance(one, list | tuple):
        return f"give them one by one, not as a {type(one).__name__}: {where}(*{package})"
    return ""
