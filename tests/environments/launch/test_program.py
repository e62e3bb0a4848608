"""What a command comes to: a script or a module for this interpreter, or a reason why only a fresh process will do."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from chaoskit.environments.launch.program import Program, interpreter_of, read
from chaoskit.errors import CannotWarm


@pytest.fixture
def interpreter(tmp_path: Path) -> str:
    """One in an environment of its own, with a console script beside it, and a script to run."""
    bin_ = tmp_path / "venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "python").symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "prog.py").write_text("print()\n")
    executable(bin_ / "torchrun", f"#!{bin_ / 'python'}\nimport torch\n")
    return str(bin_ / "python")


def executable(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def told(interpreter: str, *words: str, **env: str) -> Program:
    here = Path(interpreter).parents[2]
    path = os.pathsep.join([os.path.dirname(interpreter), os.defpath])
    return read(words, interpreter=interpreter, env={"PATH": path, **env}, cwd=str(here))


@pytest.mark.parametrize("switches", [(), ("-u",), ("-u", "-u")])
def test_a_script_and_its_arguments(interpreter, switches):
    words = (interpreter, *switches, "prog.py", "-c", "--lr", "1")
    expected = Program(words, "prog.py", False, ("-c", "--lr", "1"), bool(switches), interpreter)
    assert told(interpreter, *words) == expected


@pytest.mark.parametrize("switches", [(), ("-u",)])
def test_a_module_and_its_arguments(interpreter, switches):
    words = (interpreter, *switches, "-m", "some.module", "-m", "x")
    expected = Program(words, "some.module", True, ("-m", "x"), bool(switches), interpreter)
    assert told(interpreter, *words) == expected


def test_the_interpreter_is_looked_up_on_the_path_and_shown_as_it_was_called(interpreter):
    program = told(interpreter, "python", "prog.py")
    assert (program.words, program.executed) == (("python", "prog.py"), interpreter)


def test_a_relative_path_is_meant_from_where_the_command_starts(interpreter):
    relative = os.path.join("venv", "bin", "python")
    assert told(interpreter, relative, "prog.py").words[0] == relative
    with pytest.raises(CannotWarm, match=r"there is no program 'bin/python'"):
        told(interpreter, "bin/python", "prog.py")


def test_a_console_script_runs_by_its_first_line(interpreter):
    beside = os.path.join(os.path.dirname(interpreter), "torchrun")
    expected = Program((interpreter, beside, "--help"), beside, False, ("--help",), False, beside)
    assert told(interpreter, "torchrun", "--help") == expected
    assert told(interpreter, beside, "--help") == expected


def test_a_first_line_may_have_a_switch(interpreter, tmp_path):
    script = executable(tmp_path / "run.py", f"#! {interpreter} -u\n")
    assert told(interpreter, script).unbuffered
    script = executable(tmp_path / "run.py", f"#! {interpreter} -s -E\n")
    with pytest.raises(CannotWarm, match="-s -E"):  # one word to the kernel
        told(interpreter, script)


@pytest.mark.parametrize(
    ("words", "launcher"),
    [
        (("torchrun", "prog.py"), True),
        (("python", "-m", "torch.distributed.run", "prog.py"), True),
        (("python", "-m", "torch.distributed.launch", "prog.py"), True),
        (("python", "-m", "torch.distributed", "prog.py"), False),
        (("python", "prog.py", "torchrun"), False),
    ],
)
def test_torchrun_is_known_by_name_and_by_module(interpreter, words, launcher):
    assert told(interpreter, *words).is_launcher == launcher


@pytest.mark.parametrize("flag", ["--no-python", "--no_python", "--run-path", "--run_path"])
def test_ranks_that_need_not_be_pythons(interpreter, flag):
    with pytest.raises(CannotWarm, match=f"torchrun gets {flag}"):
        told(interpreter, "torchrun", flag, "prog.py")
    assert told(interpreter, "python", "prog.py", flag).args == (flag,)


@pytest.mark.parametrize("switch", ["-c", "-O", "-X", "-W", "-I", "-E", "-s", "-", "-um", "-Oc", "--version"])
def test_other_switches_need_a_fresh_interpreter(interpreter, switch):
    for words in (("python", switch, "prog.py"), ("python", "-u", switch, "prog.py")):
        with pytest.raises(CannotWarm, match=f"gets {switch},"):
            told(interpreter, *words)


@pytest.mark.parametrize("words", [("python",), ("python", "-u"), ("python", "-m")])
def test_no_script_at_all(interpreter, words):
    with pytest.raises(CannotWarm, match=r"gets (no script|-m)"):
        told(interpreter, *words)


def test_what_is_no_program_of_this_interpreter(interpreter, tmp_path):
    elsewhere = tmp_path / "other" / "python"
    elsewhere.parent.mkdir()
    elsewhere.symlink_to(os.path.realpath(sys.executable))  # the same file, in another environment
    binary, shell = tmp_path / "binary", tmp_path / "job.sh"
    executable(binary, "\0ELF")
    executable(shell, "#!/bin/sh\n")
    executable(tmp_path / "foreign.py", f"#!{elsewhere}\n")
    for words, reason in (
        (["no-such-program"], "there is no program 'no-such-program'"),
        ([str(binary)], "binary' is no Python program"),
        ([str(elsewhere), "prog.py"], "python' is no Python program"),
        ([str(shell)], "job.sh' is run by /bin/sh, which is not the interpreter of chaoskit"),
        ([str(tmp_path / "foreign.py")], "foreign.py' is run by .*other/python"),
    ):
        with pytest.raises(CannotWarm, match=reason):
            told(interpreter, *words)


def test_the_interpreter_of_a_command_is_told(interpreter, tmp_path):
    other = tmp_path / "other" / "python3.11"
    other.parent.mkdir()
    other.symlink_to(os.path.realpath(sys.executable))  # the same file, in another environment
    script = executable(tmp_path / "other" / "torchrun", f"#!{other}\n")
    shell = executable(tmp_path / "job.sh", "#!/bin/sh\n")
    env = {"PATH": os.path.dirname(interpreter)}
    for words, expected in (
        (["python", "prog.py"], interpreter),
        (["torchrun", "prog.py"], interpreter),
        ([str(other), "prog.py"], str(other)),
        (["other/python3.11", "prog.py"], str(other)),
        ([script], str(other)),
        ([shell], interpreter),  # whoever reads it says why not
    ):
        assert interpreter_of(words, env=env, cwd=str(tmp_path), own=interpreter) == expected
    with pytest.raises(CannotWarm, match="no program 'absent'"):
        interpreter_of(["absent"], env=env, cwd=str(tmp_path), own=interpreter)


def test_what_is_no_source(interpreter, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "prog.pyc").write_bytes(b"\0")
    with zipfile.ZipFile(tmp_path / "prog.pyz", "w") as archive:
        archive.writestr("__main__.py", "")
    for script, reason in (
        ("absent.py", "'absent.py' is no file"),
        ("package", "'package' is no file"),
        ("prog.pyc", "'prog.pyc' is no source"),
        ("prog.pyz", "'prog.pyz' is no source"),
    ):
        with pytest.raises(CannotWarm, match=reason):
            told(interpreter, "python", script)
