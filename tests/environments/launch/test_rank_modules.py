"""What of chaoskit's own code runs in the ranks is found by following imports, and is all that really runs there."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from chaoskit import Job, faults
from chaoskit.engine import reference_digest
from chaoskit.engine.runner import Runner
from chaoskit.environments.launch import parent
from chaoskit.environments.launch.rank_modules import PACKAGE, rank_modules

TRAINER = Path(__file__).parents[2] / "trainers" / "alone.py"
JOB = Job.from_command([sys.executable, "train.py", "{out}"])


def names(package=PACKAGE):
    return {str(path.relative_to(package)) for path in rank_modules(package)}


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the package, from which references and warm parents take their versions."""
    made = tmp_path / PACKAGE.name
    shutil.copytree(PACKAGE, made, ignore=shutil.ignore_patterns("__pycache__"))
    for module in (reference_digest, parent):
        monkeypatch.setattr(module, "rank_modules", lambda: rank_modules(made))
    return made


def test_modules_imported_at_the_top_in_functions_and_around_are_found():
    found = names()
    assert {"__init__.py", "probe/session.py", "probe/__init__.py", "protocol/events.py"} <= found
    assert {"probe/injection/injector.py", "protocol/sharded_hash.py"} <= found, "imported inside functions"
    assert {"environments/launch/forkserver.py", "environments/launch/warm.py"} <= found
    assert not {path for path in found if path.startswith(("analysis/", "engine/", "checks/", "cli/"))}


def test_every_import_counts_but_for_type_checking(tmp_path):
    package = tmp_path / "own"
    for name in ("used", "nested", "typed", "late", "other"):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "nested" / "deep.py").touch()
    entries = {
        "probe/session.py": "from own import used\n",
        "probe/site/sitecustomize.py": "import own.nested.deep\n",
        "protocol/bootstrap.py": "if TYPE_CHECKING:\n    from own import typed\nelse:\n    import own.other\n",
        "environments/launch/keeper.py": "def later():\n    with open('x'):\n        from own import late\n",
        "environments/launch/forkserver.py": "import os\n",
        "environments/launch/cold.py": "",
        "environments/launch/warm.py": "",
    }
    for name, text in entries.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    expected = {
        "__init__.py",
        "nested/deep.py",
        *(f"{name}/__init__.py" for name in ("used", "nested", "late", "other")),
    }
    assert names(package) == expected | set(entries)


def test_a_changed_byte_of_any_of_them_makes_another_reference(copy):
    before = reference_digest.digest(JOB)
    assert names(copy) == names()
    for path in rank_modules(copy):
        whole = path.read_bytes()
        path.write_bytes(whole + b"#")
        assert reference_digest.digest(JOB) != before, path
        path.write_bytes(whole)
    assert reference_digest.digest(JOB) == before
    (copy / "analysis" / "case.py").write_text("changed = True\n")
    assert reference_digest.digest(JOB) == before, "what no rank imports changes no reference"


def test_a_change_of_any_of_them_makes_another_warm_parent(copy):
    before = parent._stamp()
    for path in rank_modules(copy):
        old = path.stat().st_mtime_ns
        os.utime(path, ns=(1, 1))
        assert parent._stamp() != before, path
        os.utime(path, ns=(old, old))
    assert parent._stamp() == before


@pytest.mark.slow
@pytest.mark.parametrize("launch", ["cold", "warm"])
def test_ranks_import_nothing_else_of_chaoskit(shared_store, tmp_path, launch):
    script = tmp_path / "train.py"
    script.write_text(
        "import atexit, runpy, sys\n"
        "def tell():\n"
        "    for name, module in sorted(sys.modules.items()):\n"
        "        if name.partition('.')[0] == 'chaoskit':\n"
        "            print('imported', module.__file__, flush=True)\n"
        "atexit.register(tell)\n"
        f"sys.argv[0] = {str(TRAINER)!r}\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    job = Job.from_command([sys.executable, str(script), "--out", "{out}", "--steps", "13"])
    run = Runner(shared_store, launch=launch).run(job, faults.nan(rank=0).at_step(8))
    said = (run.dir / "logs" / "launch-0.log").read_text().splitlines()
    imported = {line.removeprefix("imported ") for line in said if line.startswith("imported ")}
    assert any(path.endswith("probe/session.py") for path in imported)
    assert any(path.endswith("forkserver.py") for path in imported) == (launch == "warm")
    assert imported <= {str(path) for path in rank_modules()}
