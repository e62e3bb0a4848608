"""What is found out about an interpreter, and what a command is when it runs it."""

import sys

import pytest

from chaoskit.errors import UsageError
from chaoskit.protocol import fingerprint
from chaoskit.studies.upgrade.interpreter import Interpreter, differences, must_compare


@pytest.fixture
def python(tmp_path):
    """An interpreter that nobody asks anything, with one program beside it."""
    (tmp_path / "accelerate").write_text("")
    (tmp_path / "accelerate").chmod(0o755)
    return Interpreter(str(tmp_path / "python"), {"python": "3.11.7", "torch": "2.13.0"})


@pytest.mark.parametrize(
    "typed, run",
    [
        (["torchrun", "--nnodes", "2", "t.py"], ["PY", "-m", "torch.distributed.run", "--nnodes", "2", "t.py"]),
        (["/venv/bin/torchrun", "t.py"], ["PY", "-m", "torch.distributed.run", "t.py"]),
        (["python3", "-u", "t.py"], ["PY", "-u", "t.py"]),
        (["/usr/bin/python3.11", "-m", "train"], ["PY", "-m", "train"]),
        (["env", "OUT={out}", "A=b=c", "python", "t.py"], ["env", "OUT={out}", "A=b=c", "PY", "t.py"]),
        ([], []),
    ],
)  # fmt: skip
def test_torchrun_and_python_become_the_interpreter(python, typed, run):
    assert python.command(typed) == [python.path if word == "PY" else word for word in run]


def test_another_program_is_the_one_beside_it(python, tmp_path):
    assert python.command(["accelerate", "launch"]) == [str(tmp_path / "accelerate"), "launch"]
    with pytest.raises(UsageError, match=r"no program 'deepspeed'.*-m pip install"):
        python.command(["deepspeed", "t.py"])
    with pytest.raises(UsageError, match="env with the option -i"):
        python.command(["env", "-i", "python", "t.py"])


def test_what_a_rank_was_started_by_is_told(python, tmp_path):
    assert python.is_run_by(str(tmp_path / "python3"))
    assert not python.is_run_by(sys.executable)
    assert not python.is_run_by(str(tmp_path / "accelerate"))


def test_the_interpreter_of_the_tests_says_what_it_has():
    found = Interpreter.examine(sys.executable, option="--old")
    assert found.versions["python"] == sys.version.split()[0]
    assert found.versions["torch"].startswith(found.packages["torch"])
    assert found.algorithm == fingerprint.ALGORITHM
    assert not differences(found, found)


def test_what_is_no_interpreter_is_refused(tmp_path, bare):
    for path, what in (
        (tmp_path / "absent", "is not a program"),
        (tmp_path, "is a directory: did you mean"),
        ("/bin/true", "is not a Python interpreter"),
        (bare, "cannot import torch .*-m pip install torch"),
    ):
        with pytest.raises(UsageError, match=f"--new: .*{what}"):
            Interpreter.examine(str(path), option="--new")


def test_an_interpreter_without_xxhash_is_lent_ours(bare, tmp_path, monkeypatch):
    """It has no torch either, so it is given one that is a name and a version."""
    (tmp_path / "torch.py").write_text("__version__ = '9.9.9'\nclass version: cuda = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert Interpreter.examine(bare, option="--new").algorithm == "xxh3-128"
    monkeypatch.setattr(
        "chaoskit.studies.upgrade.interpreter.library", lambda: "/lib/_xxhash.cpython-39-of-another.so"
    )
    found = Interpreter.examine(bare, option="--new")
    assert (found.algorithm, found.versions["torch"]) == ("blake2b-128", "9.9.9")
    with pytest.raises(UsageError, match=rf"{bare} lacks xxhash.*{bare} -m pip install xxhash"):
        must_compare(Interpreter("python", {}, algorithm="xxh3-128"), found)


def test_differences_are_told_once_and_the_first_names_first():
    old = Interpreter("a", {"python": "3.11", "torch": "2.13.0"}, {"numpy": "1", "torch": "2.13.0", "rich": "1"})
    new = Interpreter("b", {"python": "3.11", "torch": "2.14.1"}, {"numpy": "2", "torch": "2.14.1"})
    told = {"torch": ("2.13.0", "2.14.1"), "numpy": ("1", "2"), "rich": ("1", None)}
    assert list(differences(old, new).items()) == list(told.items())
