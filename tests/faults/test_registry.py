"""Faults and checks that register themselves: a new one is a file, and nothing else is edited."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit import checks, faults
from chaoskit.analysis.record.harness_record import FaultRecord
from chaoskit.checks.registry import CODES_OF, check
from chaoskit.checks.registry import scan as scan_checks
from chaoskit.errors import CODES, FAMILIES
from chaoskit.faults.registry import ACTIONS, fault, group_of, scan
from chaoskit.protocol.fault_kinds import EARLIER_KINDS
from tools import stubs, tables

STARVE = '''"""`starve`: a rank loses its priority."""

from dataclasses import dataclass

from chaoskit.capabilities import CanSignal
from chaoskit.faults.fault import Fault
from chaoskit.faults.registry import fault


@dataclass(frozen=True)
class Starve:
    """See `starve`."""

    rank: int
    name = "starve"
    needs = (CanSignal,)
    heal_after = None
    heal_launches = None

    def victims(self, world_size):
        return (self.rank,)

    def apply(self, env, world_size):
        return {"rank": self.rank}

    def observed(self, env, applied):
        return applied

    def heal(self, env, applied):
        return {}

    def to_json(self):
        return {"kind": self.name, "rank": self.rank}


@fault("starve", Starve)
def starve(*, rank: int) -> Fault:
    """Take the priority of `rank` away. Observed at once."""
    return Fault(Starve(rank))
'''
STEADY = '''"""`steady`: no step takes long."""

from dataclasses import dataclass

from chaoskit.checks.registry import CODES_OF, check
from chaoskit.verdict import passed


@dataclass(frozen=True)
class Steady:
    """See `steady`."""

    name = "steady"

    def __call__(self, case):
        return passed(self.name, "every step is short")

    def to_json(self):
        return {"name": self.name}


@check("slow-recovery", "data", "completed")
def steady():
    """Claim that no step takes long."""
    return Steady()
'''


@pytest.fixture
def extended(tmp_path, monkeypatch):
    """Add one file to a package: as if it lay in it."""
    before = set(sys.modules)

    def add(package, registries, path, text):
        for registry in registries:
            for name, value in registry.items():  # the original comes back as a whole
                monkeypatch.setitem(registry, name, value)
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])

    yield add
    for registry in (faults.REGISTRY, ACTIONS):
        registry.pop("starve", None)
    for registry in (checks.REGISTRY, CODES_OF):
        registry.pop("steady", None)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_new_fault_is_one_file(extended):
    extended(faults, (faults.REGISTRY, ACTIONS), "priority/starve.py", STARVE)
    starve = scan(faults)["starve"]
    made = starve(rank=1).at_step(3)
    assert faults.from_json(made.to_json()) == made
    assert group_of(starve) == "priority" and ACTIONS["starve"].needs[0].__name__ == "CanSignal"
    assert "from chaoskit.faults.priority.starve import starve\n" in stubs.faults()
    assert "## Priority\n" in tables.faults()
    assert "| `starve` | Take the priority of `rank` away. | `CanSignal` |\n" in tables.faults()


def test_a_new_check_is_one_file(extended):
    extended(checks, (checks.REGISTRY, CODES_OF), "steady.py", STEADY)
    made = scan_checks(checks)["steady"]()
    assert checks.from_json(made.to_json()) == made
    assert "from chaoskit.checks.steady import steady\n" in stubs.checks()
    codes = "`slow-recovery`, the family *data*, the codes of `completed`"
    assert f"| `steady()` | Claim that no step takes long. | {codes} |" in tables.checks()


def test_every_fault_and_check_is_an_attribute_of_its_package():
    for package in (faults, checks):
        for make in package.REGISTRY.values():
            assert getattr(package, make.__name__) is make and make.__name__ in package.__all__


def test_each_kind_is_what_its_action_stores():
    for kind, make in faults.REGISTRY.items():
        assert make.__doc__ and ACTIONS[kind].needs is not None, kind
    assert ACTIONS.keys() == faults.REGISTRY.keys()


def test_a_kind_or_name_that_is_taken_is_refused():
    with pytest.raises(ValueError, match=r"chaoskit\.faults\.process\.kill\.kill of kind 'kill'; choose another name"):
        fault("kill", ACTIONS["kill"])(faults.pause)
    with pytest.raises(ValueError, match=r"of kind 'pause'"):
        fault("pause2", ACTIONS["pause"])(faults.pause)

    def completed():
        """Another one."""

    with pytest.raises(ValueError, match=r"is also in chaoskit\.checks\.completed"):
        check()(completed)


@pytest.mark.parametrize("path", stubs.STUBS, ids=lambda path: path.parent.name)
def test_the_stubs_are_up_to_date(path):
    assert path.read_text() == stubs.STUBS[path](), "stale: run make tables"


def test_a_stale_stub_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(stubs, "ROOT", tmp_path)
    monkeypatch.setattr(stubs, "STUBS", {tmp_path / "a.pyi": lambda: "fresh\n"})
    assert stubs.main(["--check"]) == 1
    assert capsys.readouterr().out == "a.pyi: stale; run make tables\n" and not (tmp_path / "a.pyi").exists()
    assert stubs.main([]) == 0 and (tmp_path / "a.pyi").read_text() == "fresh\n"
    assert stubs.main(["--check"]) == 0


def test_the_scan_needs_the_package_alone():
    """In a process of its own, whichever module comes first."""
    for first in ("chaoskit.faults.process.kill", "chaoskit.faults.control.noop", "chaoskit.checks.completed"):
        package, name = first.split(".")[1], first.split(".")[-1]
        code = f"import {first}; from chaoskit import {package}; print({package}.{name}.__module__)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
        )
        assert done.stdout.strip() == first


def test_importing_chaoskit_and_the_probe_scans_nothing():
    code = "import sys, chaoskit, chaoskit.probe; print([n for n in sys.modules if 'faults' in n or 'checks' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


EARLIER = {
    "flip": ({"bits": 2, "checkpoints": 1, "launches": None}, faults.file_bitflip(bits=2)),
    "loss": ({"node": [0, 2], "percent": 5.0, "seconds": 2.0}, faults.packet_loss(node=(0, 2), percent=5, seconds=2)),
    "corrupt": ({"node": "all", "percent": 5.0, "seconds": 2.0},
                faults.packet_corruption(node="all", percent=5, seconds=2)),
    "grow": ({}, faults.add_node()),
    "shrink": ({"node": -1}, faults.remove_node()),
}  # fmt: skip


@pytest.mark.parametrize("earlier", EARLIER_KINDS)
def test_a_schedule_stored_under_an_earlier_kind_is_read(earlier):
    given, same = EARLIER[earlier]
    stored = {"text": "as it was", "action": {"kind": earlier, **given}, "trigger": {"kind": "at_relaunch"}}
    assert faults.from_json(stored) == same.before_relaunch()
    assert faults.from_json(stored).to_json()["action"]["kind"] == EARLIER_KINDS[earlier] == same.action.name
    assert FaultRecord(0, stored).kind == EARLIER_KINDS[earlier]


def test_the_kind_of_a_record_that_says_none():
    assert FaultRecord(0, {"text": "kill rank 1"}).kind is None
    assert FaultRecord(0, {"action": {"kind": ["kill"]}}).kind is None
    assert FaultRecord(0, {"action": {"kind": "kill"}}).kind == "kill"


def test_earlier_kinds_lead_to_kinds_that_exist_and_hide_none():
    assert set(EARLIER_KINDS.values()) <= faults.REGISTRY.keys() and not EARLIER_KINDS.keys() & faults.REGISTRY.keys()


def test_each_check_declares_every_code_that_its_file_names():
    """The table of checks tells what each may fail with; codes of what is inconclusive are not failures."""
    for name, make in checks.REGISTRY.items():
        declared = set()
        waiting = list(CODES_OF[name])
        while waiting:
            one = waiting.pop()
            declared |= {one} if one in CODES else {code for code in CODES if FAMILIES[code] == one}
            waiting += CODES_OF.get(one, ())
            assert one in CODES or one in FAMILIES.values() or one in checks.REGISTRY, f"{name}: {one}"
        tree = ast.parse(Path(inspect.getfile(make)).read_text())
        named = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in CODES}
        left_out = {"restarted-from-scratch"} if name == "matches_reference" else set()  # named to be filtered out
        assert {code for code in named if FAMILIES[code] != "inconclusive"} - left_out <= declared, name
