"""Command lines that cannot be carried out: each gets the documented exit code and a sentence that names what is wrong,
before anything is launched or stored. The lines, and words of the sentences, are in `command_lines.txt`.
"""

import shlex
import sys
from pathlib import Path

import pytest

from chaoskit.cli import battery, main
from chaoskit.engine.runner import Runner
from chaoskit.errors import ExitCode

#: The command of the job, where a line says JOB.
JOB = ["--", sys.executable, "train.py", "{out}"]


def lines():
    """Exit code, command line and words of the sentence, in columns that are divided by ' | '."""
    for row in Path(__file__).with_name("command_lines.txt").read_text().splitlines():
        if row and not row.startswith("#"):
            code, line, words = (part.strip() for part in row.split(" | "))
            yield pytest.param(line, int(code), words, id=line)


def launched(*_, **__):
    raise AssertionError("a job was launched")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a script, a file and a directory that is empty."""
    home = tmp_path_factory.mktemp("project")
    (home / "train.py").touch()
    (home / "afile").touch()
    (home / "sub").mkdir()
    return home


@pytest.fixture
def said(project, monkeypatch, capsys):
    """The exit code of a command line, and what it says; nothing can be launched."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(battery, "run", launched)
    for name in ("run", "reference"):
        monkeypatch.setattr(Runner, name, launched)

    def run(line):
        words = shlex.split(line)
        words = [*words[:-1], *JOB] if words[-1:] == ["JOB"] else words
        try:
            code = main.main(words)
        except SystemExit as end:
            code = end.code
        told = capsys.readouterr()
        return code, told.out + told.err

    return run


@pytest.mark.parametrize(("line", "code", "words"), list(lines()))
def test_a_line_that_cannot_be_carried_out_gets_a_sentence_and_does_nothing(said, project, line, code, words):
    got, told = said(line)
    assert (got, words in told, "Traceback" in told) == (code, True, False), told
    assert sorted(path.name for path in project.iterdir()) == ["afile", "sub", "train.py"]
    assert not list((project / "sub").iterdir())


def test_the_table_is_long():
    assert len(list(lines())) > 150


@pytest.mark.parametrize(
    "line", ["run -n 100000 JOB", "run -n auto JOB", "run --timeout 1e8 JOB", "run --every 1h --during 6h JOB"]
)
def test_a_line_that_can_be_carried_out_is(said, monkeypatch, line):
    given = {}

    def ran(options, chosen, **more):
        given.update(more)
        raise KeyboardInterrupt

    monkeypatch.setattr(battery, "run", ran)
    assert said(line)[0] == ExitCode.INTERRUPTED
    workers = given["workers"]
    assert workers in (None, "auto") or int(workers) < 100, "no more workers than experiments"


def test_a_list_needs_no_environment_with_so_many_nodes(said):
    code, told = said("run --list --nodes 1:2")
    assert code == ExitCode.PASS and "test_" in told


def test_a_file_may_have_settings_for_several_environments(said, project, tmp_path, monkeypatch):
    """They are no mistake, and are no part of a job that runs elsewhere."""
    (tmp_path / "train.py").touch()
    lines = ("partition = 'gpu'", "image = 'trainer:7'", "mount = ['/data:/data']", "namespace = 'staging'",
             "[kubernetes]", "grace = 30")  # fmt: skip
    (tmp_path / "chaoskit.toml").write_text("\n".join(lines))
    given = []

    def ran(forwarded, chosen, **more):
        given.extend(forwarded)
        raise KeyboardInterrupt

    monkeypatch.setattr(battery, "run", ran)
    monkeypatch.chdir(tmp_path)
    code, told = said("run JOB")
    assert code == ExitCode.INTERRUPTED, told
    assert not [word for word in given if word.startswith(("--chaos-partition", "--chaos-image", "--chaos-names"))]
    code, told = said("run --partition other JOB")
    assert code == 2 and "--partition is for --env slurm, not for 'local'" in told
