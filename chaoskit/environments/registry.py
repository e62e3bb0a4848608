"""The environments by name, and what can be asked of one before it is started.

Each question raises an error that names a remedy: an environment that offers what is missing, or how to get it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, get_args

from chaoskit.capabilities import REMEDIES, CanFailStorage
from chaoskit.environments.environment import Environment, RunSpec
from chaoskit.environments.traits import EnvironmentTraits, StorageKind
from chaoskit.errors import ChaoskitError, MissingCapability, UsageError
from chaoskit.job import Job
from chaoskit.nodes import Nodes
from chaoskit.validation import shown

#: The environment of a run that names none.
DEFAULT_ENVIRONMENT = "local"


class EnvironmentType(Protocol):
    """What the registry holds, a class: calling it with the specification of a run makes an environment for it."""

    @property
    def traits(self) -> EnvironmentTraits: ...

    def __call__(self, spec: RunSpec, /) -> Environment: ...

    def available(self) -> str | None:
        """None if this machine can run it, else the reason and the remedy."""
        ...

    def storage_available(self) -> str | None:
        """None if it can give the storage of its traits on this machine, else the reason and the remedy."""
        ...

    def lacks(self, capability: type, job: Job | None) -> str | None:
        """Why it cannot use a capability of its class on this machine, for this job, and the remedy; None if it can."""
        ...

    def rests_on(self, job: Job) -> Mapping[str, Any]:
        """What of the environment, beside this machine, decides what an uninterrupted run of the job does, as plain
        JSON. Raises UsageError for a job that it cannot run."""
        ...

    def sweep(self, root: Path, /) -> tuple[str, ...]:
        """Remove what dead harnesses have left that is neither a file nor a process of this machine, such as
        containers; `root` has the stored runs, which may say where that is. Returns what was removed, for people.
        Raises ChaoskitError where that cannot be reached."""
        ...

    def path_here(self, job: Job, path: str) -> str | None:
        """Where on this machine the file is that the job read at `path`; None if `rests_on` stands for it."""
        ...


#: Those that are registered so far; `environments` registers all.
ENVIRONMENTS: dict[str, EnvironmentType] = {}


def register_environment(kind: EnvironmentType) -> None:
    """Make it known as `--env NAME`, by the name in its traits."""
    ENVIRONMENTS[kind.traits.name] = kind


def environments() -> dict[str, EnvironmentType]:
    """All of them by name. Imports each `environment` module in a folder beside this file, which registers its own."""
    for folder in sorted(path.parent.name for path in Path(__file__).parent.glob("*/environment.py")):
        import_module(f"{__package__}.{folder}.environment")
    return dict(sorted(ENVIRONMENTS.items()))


def environment(name: str) -> EnvironmentType:
    """The environment of that name; raises UsageError, listing what there is, if there is none."""
    known = environments()
    if not isinstance(name, str) or name not in known:
        raise UsageError(f"there is no environment {shown(name)}; there are: {', '.join(known)}")
    return known[name]


def must_have(name: str) -> None:
    """Raises MissingCapability if this machine cannot run the environment of that name."""
    if (why := environment(name).available()) is not None:
        message = f"environment {name!r} cannot be used here: {why}"
        raise MissingCapability(message, capability=name, remedy="chaoskit doctor says what there is")


def must_fit(name: str, nodes: Nodes) -> None:
    """Raises UsageError if the environment does not have as many nodes as a job asks for."""
    traits = environment(name).traits
    if nodes.most > traits.nodes_most:
        enough = [other for other, kind in environments().items() if nodes.most <= kind.traits.nodes_most]
        has = "one node only" if traits.nodes_most == 1 else f"{traits.nodes_most} nodes at most"
        remedy = f"; use --env {' or --env '.join(sorted(enough))}" if enough else ""
        raise UsageError(f"nnodes={nodes}: environment {name!r} has {has}{remedy}")
    if nodes.most < traits.nodes_least:
        raise UsageError(f"nnodes={nodes}: environment {name!r} needs a job of {traits.nodes_least} nodes or more")


def unused_options(name: str) -> dict[str, list[str]]:
    """The options that the environment of that name does not use, each with the names of those that do."""
    used, found = environment(name).traits.options, dict[str, list[str]]()
    for other, kind in environments().items():
        for option in set(kind.traits.options).difference(used):
            found.setdefault(option, []).append(other)
    return dict(sorted(found.items()))


def sweep(root: Path) -> tuple[list[str], dict[str, str]]:
    """What `EnvironmentType.sweep` of all environments has removed; and by name those that it could not reach, and
    why."""
    removed: list[str] = []
    unreached: dict[str, str] = {}
    for name, kind in environments().items():
        try:
            removed += kind.sweep(root)
        except ChaoskitError as error:
            unreached[name] = str(error)
    return removed, unreached


def offers(name: str, capability: type) -> bool:
    """Whether the environment of that name has the capability, a protocol of `chaoskit.capabilities`."""
    kind = environment(name)
    return isinstance(kind, type) and issubclass(kind, capability)


def must_offer(name: str, capabilities: Sequence[type], *, to: object, job: Job | None = None) -> None:
    """Raises MissingCapability for the first capability that the environment lacks, on this machine and for this `job`;
    `to` says what needs it."""
    for capability in capabilities:
        if not offers(name, capability):
            remedy = remedy_for(capability)
            message = f"{to} needs {capability.__name__}, which environment {name!r} lacks: {remedy}"
            raise MissingCapability(message, capability=capability.__name__, remedy=remedy)
        if (why := environment(name).lacks(capability, job)) is not None:
            raise MissingCapability(f"{to} cannot be used here: {why}", capability=capability.__name__, remedy=why)


def must_store(name: str, storage: StorageKind, *, per_node: bool = False) -> None:
    """Raises MissingCapability if the environment cannot give that storage, or not fail it on some nodes `per_node`;
    UsageError for what is no kind of storage."""
    if storage not in get_args(StorageKind):
        raise UsageError(f"storage must be one of {', '.join(map(repr, get_args(StorageKind)))}, not {storage!r}")
    kind, capability = environment(name), CanFailStorage
    why = remedy = None
    if storage not in kind.traits.storage or (storage and not offers(name, capability)):
        remedy = _use(
            [other for other, kind in environments().items() if storage in kind.traits.storage], capability
        )
        why = f"environment {name!r} has no {storage} storage: {remedy}"
    elif per_node and not kind.traits.storage_per_node:
        remedy = _use(
            [other for other, kind in environments().items() if kind.traits.storage_per_node], capability
        )
        why = f"environment {name!r} has one storage for all nodes: {remedy}"
    elif storage:
        why = remedy = kind.storage_available()
    if why is not None:
        message = f"{{out}} cannot be a file system of chaoskit's own: {why}"
        raise MissingCapability(message, capability=capability.__name__, remedy=remedy or why)


def failing_storage(name: str, picking: Sequence[object]) -> StorageKind:
    """The storage that a run needs so that it can be made to fail. `picking` are the faults that pick some requests, by
    their files or number. Raises MissingCapability where the environment cannot do that."""
    if not environment(name).traits.plain_fails:
        return "watched"
    if picking:
        names = [other for other, kind in environments().items() if "watched" in kind.traits.storage]
        remedy = _use(names, CanFailStorage)
        why = f"{picking[0]} picks requests, and environment {name!r} can only fail all of some kinds: {remedy}"
        raise MissingCapability(why, capability=CanFailStorage.__name__, remedy=remedy)
    return ""


def must_share_files(name: str, *, to: object) -> None:
    """Raises MissingCapability unless ranks and harness see the run's directory at the same path."""
    if not environment(name).traits.shares_files:
        names = [other for other, kind in environments().items() if kind.traits.shares_files]
        remedy = f"use --env {' or --env '.join(sorted(names))}"
        message = f"{to} puts files where all ranks find them, which environment {name!r} cannot: {remedy}"
        raise MissingCapability(message, capability="shares_files", remedy=remedy)


def remedy_for(capability: type) -> str:
    """Which environments have the capability, and what it takes."""
    return _use([name for name in environments() if offers(name, capability)], capability)


def _use(names: Sequence[str], capability: type) -> str:
    takes = REMEDIES.get(capability.__name__, "")
    use = f"use --env {' or --env '.join(sorted(names))}" if names else "no environment has it"
    return f"{use} (needed: {takes})" if takes else use
