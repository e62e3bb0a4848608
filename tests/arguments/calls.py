"""Every public callable, with arguments that it accepts. Its arguments are read from its signature: none escapes."""

import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chaoskit import Job, NodeLossPolicy, checks, faults, targets
from chaoskit.analysis.reference.reference import Reference
from chaoskit.cli.pytest_session import Chaos
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Run, Runner
from chaoskit.faults import Fault, triggers
from chaoskit.nodes import ClusterPlace

#: Names that annotations use and that are imported for type checkers only.
NAMES = {"Job": Job, "Fault": Fault, "Reference": Reference, "Run": Run, "StorageKind": str}

#: For an argument that must be given, by its name.
GIVEN: dict[str, Any] = {
    "rank": 0, "node": 1, "seconds": 2.0, "factor": 2.0, "sigma": 0.5, "value": 0.5, "kbit": 100.0, "percent": 5.0,
    "ms": 20.0, "cpu": 0.5, "bytes_per_second": 2**20, "by": -60.0, "delay": 0.5, "files": "*", "cloud": "aws",
    "n": 1, "step": 2, "seed": 1, "interval": "1s", "during": "3s", "pattern": "head.*", "op": "all_reduce",
    "kind": "gradient", "inside": True, "namespace": "ours", "claim": "runs", "path": "/runs", "into": "loss",
}  # fmt: skip
#: What one callable needs besides: of several arguments that may each be left out, one must be there.
MORE: dict[str, dict[str, Any]] = {
    "kill": {"rank": 0}, "out_of_memory": {"rank": 0}, "preempt": {"node": 0}, "recovered_within": {"seconds": 30.0},
    "slow_disk": {"rank": 0, "seconds": 2.0}, "throttle": {"rank": 0, "seconds": 2.0}, "Job": {"script": "train.py"},
    "Job.from_command": {"command": ["train", "{out}"]},
    **{name: {"seconds": 2.0} for name in (
        "disk_full", "late_names", "quota", "read_only", "slow_storage", "storage_gone")},
}  # fmt: skip
#: Functions of `chaoskit.targets` that take what the probe has found, and no argument of a user.
INTERNAL = ("matching", "near")


@dataclass(frozen=True)
class Call:
    """`make`, with arguments that it accepts by name. One that `runs` something is only called with what does not fit.
    `known_as` has the words for arguments that people know by another name."""

    name: str
    make: Callable[..., Any]
    hints: Mapping[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict)
    several: str = ""
    runs: bool = False
    known_as: Mapping[str, str] = field(default_factory=dict)
    after: Callable[[Any], object] = lambda made: made

    def __call__(self, argument: str, value: object) -> object:
        given = {**self.given, argument: value}
        several = (given.pop(self.several),) if self.several in given else ()
        if several:
            job = [given.pop("job")] if "job" in given else []
            return self.make(*job, *several, **given)
        return self.after(self.make(**given))


def call(name: str, make: Callable[..., Any], **more: Any) -> Call:
    """The call of that callable, its hints and what must be given by its signature."""
    target = make if not inspect.isclass(make) else make.__init__
    hints = typing.get_type_hints(target, localns=NAMES)
    found, several, required = {}, "", []
    for one in inspect.signature(make).parameters.values():
        if one.kind is one.VAR_KEYWORD:
            options = typing.get_args(hints.get(one.name, Any))
            found |= typing.get_type_hints(options[0]) if options else {}
            continue
        if one.kind is one.VAR_POSITIONAL:
            several = one.name
        elif one.default is one.empty:
            required.append(one.name)
        found[one.name] = hints.get(one.name, Any)
    given = {**MORE.get(name, {}), **more.pop("given", {})}
    for each in required:
        assert each in given or each in GIVEN, f"{name}: add an example of the argument {each!r} to GIVEN"
        given.setdefault(each, GIVEN.get(each))
    found |= more.pop("hints", {})
    return Call(name, make, found, given, several=several, **more)


def every_call() -> Iterator[Call]:
    """All of them. None makes a store: nothing is launched."""
    for make in faults.REGISTRY.values():
        yield call(make.__name__, make, after=stored_fault)
    for name, make in checks.REGISTRY.items():
        yield call(name, make, after=stored_check)
    for name, make in vars(targets).items():
        own = inspect.isfunction(make) and make.__module__ == targets.__name__
        if own and not name.startswith("_") and name not in INTERNAL:
            yield call(name, make, after=written_target)
    yield call("InjectionTarget", targets.InjectionTarget, after=str, known_as={"kind": "target|kind"})
    killed = faults.kill(rank=0)
    yield call("Fault", Fault, given={"action": killed.action})
    for name in ("at_step", "during_save", "after_save", "between_writes", "after", "every", "at_random"):
        yield call(f"Fault.{name}", getattr(killed, name))
    for name, make in triggers.KINDS.items():
        known_as = {"delay": "interval" if name == "every" else "seconds"}
        yield call(make.__name__, make, given={"of": 3} if name == "every" else {}, known_as=known_as)
    yield call("Job", Job, after=stored_job)
    yield call("Job.from_command", Job.from_command, after=stored_job)
    yield call("NodeLossPolicy", NodeLossPolicy)
    manifest = dict.fromkeys(("resources", "node_selector", "job_template"), Mapping[Any, Any])
    yield call("ClusterPlace", ClusterPlace, hints=manifest | {"tolerations": Sequence[Any]})
    yield from of_the_fixture(Store("/nowhere"))


def of_the_fixture(store: Store) -> Iterator[Call]:
    """What launches jobs or judges runs: of these only what is refused is called. The other arguments of a runner are
    the engine's own."""
    job = Job.from_command(["true", "{out}"])
    runner = Runner(store)
    chaos = Chaos(runner, failed={}, require=False)
    run = Run("1", store.runs / "1", job, store, None)
    for owner in (chaos, runner):
        for name in ("run", "reference"):
            found = call(f"{type(owner).__name__}.{name}", getattr(owner, name), given={"job": job}, runs=True)
            own = {each: found.hints[each] for each in ("job", "faults", "storage") if each in found.hints}
            yield replace(found, hints=own)
    for name in ("judge", "verify"):
        yield call(f"Run.{name}", getattr(run, name), runs=True)
    reference = Reference((), "0")
    for name in ("middle_of_epoch", "middle_after_save"):
        yield call(f"Reference.{name}", getattr(reference, name), runs=True)
    yield call("Store", Store)


def stored_fault(made: Fault) -> Fault:
    """What a stored schedule makes of it."""
    text = json.dumps(made.at_step(9).to_json(), allow_nan=False)
    found = faults.from_json(json.loads(text))
    assert found == made.at_step(9), text
    return found


def stored_check(made: checks.Check) -> checks.Check:
    """What stored verdicts make of it."""
    text = json.dumps(made.to_json(), allow_nan=False)
    found = checks.from_json(json.loads(text))
    assert found == made, text
    return found


def written_target(made: targets.InjectionTarget) -> targets.InjectionTarget:
    """What its text form comes to."""
    found = targets.InjectionTarget.parse(str(made))
    assert found == made, str(made)
    return found


def stored_job(made: Job) -> Job:
    """What a stored run makes of it."""
    text = json.dumps(made.to_json(), allow_nan=False)
    found = Job.from_json(json.loads(text))
    assert found.to_json() == made.to_json(), text
    return found
