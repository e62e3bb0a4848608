"""`TeamJob`: what differs between the kinds of job whose pods a controller makes. All else asks for no kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from chaoskit.environments.kubernetes.api_kinds import ApiKind
from chaoskit.environments.kubernetes.selectors import RunIdentity, RunSelector
from chaoskit.errors import SupervisorGaveUp

#: The last part of a pattern that stands for the name of a run's job, and for that of its service.
JOB, SERVICE = "{job}", "{service}"
SUSPENDED = "is suspended: leave suspend out, or nothing would run"


@dataclass(frozen=True)
class PodTemplate:
    """The template of some pods of a job, and where it stands in the manifest, such as `spec.template`."""

    path: str
    manifest: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ControllerReport:
    """What the cluster says of a job: the `job` itself, and what its controller has `made` between it and the pods.
    `codes` are the last exit codes of `container` by the number of the pod."""

    job: Mapping[str, Any]
    made: Sequence[Mapping[str, Any]] = ()
    container: str
    codes: Mapping[int, int]


class TeamJob(Protocol):
    """A job of one kind, by its manifest. Its pods have the numbers 0 to `nodes` - 1. Pure functions."""

    #: What is made in the cluster.
    api: ClassVar[ApiKind]
    #: What its controller makes that is no pod, and that pods are made of.
    makes: ClassVar[tuple[ApiKind, ...]]
    #: The type of the condition that says that all of it has ended well.
    complete: ClassVar[str]

    @property
    def manifest(self) -> Mapping[str, Any]:
        """As the team has it, or as a run has it."""
        ...

    def refusals(self) -> Iterator[str]:
        """Why chaoskit cannot run it, as far as its kind decides that, the first reason first. It has `metadata` with
        a name, and `spec`. The other members are for a manifest without a refusal."""
        ...

    @property
    def pods(self) -> tuple[PodTemplate, ...]:
        """The templates of its pods, the one with pod 0 first."""
        ...

    @property
    def nodes(self) -> int:
        """The number of its pods."""
        ...

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables that its controller sets in the pods, as far as chaoskit must know them."""
        ...

    def with_pods(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], *, service: str) -> dict[str, Any]:
        """The manifest with each template of pods changed, whose names are below that service where their controller
        gives them none."""
        ...

    def address(self, number: int, *, job: str = JOB, service: str = SERVICE) -> str:
        """The name by which the other pods know pod `number` of a job of this name."""
        ...

    def number(self, pod: Mapping[str, Any]) -> int:
        """The number of a pod of this job, by its labels."""
        ...

    def selector(self, identity: RunIdentity, role: str, number: int) -> RunSelector:
        """Selects pod `number` of the job of a run."""
        ...

    def suspension(self, suspended: bool) -> dict[str, Any]:
        """The change by which its controller deletes its pods, or makes them again."""
        ...

    def gave_up(self, report: ControllerReport) -> SupervisorGaveUp | None:
        """Why its controller starts nothing again, None if it does."""
        ...


def part(manifest: Any, path: str) -> Mapping[str, Any]:
    """The mapping on a path such as `spec.runPolicy`, an empty one where there is none, or something else."""
    for name in path.split("."):
        manifest = manifest.get(name) if isinstance(manifest, Mapping) else None
    return manifest if isinstance(manifest, Mapping) else {}


def condition(manifest: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The condition of this type in the status of an object, None if there is none that holds."""
    found = part(manifest, "status").get("conditions") or ()
    return next((each for each in found if (each.get("type"), each.get("status")) == (kind, "True")), None)
