"""`chaoskit forecast`: which suite it takes, what it says of weak ones, and every number that cannot be."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from chaoskit.cli import forecast as command
from chaoskit.cli import main
from chaoskit.engine.run_store import Store
from chaoskit.errors import ExitCode
from chaoskit.schema import conform
from chaoskit.studies.forecast.document import ForecastDocument
from chaoskit.studies.forecast.measured import measured
from chaoskit.studies.nights.archive import Archive, Writer
from chaoskit.validation import LARGEST
from tests.studies.forecast.suites import COST, killed, lost
from tests.studies.forecast.suites import suite as made

USUAL = ["--gpus", "1024", "--days", "30", "--trials", "50"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store without anything in it."""
    return tmp_path / ".chaoskit"


@pytest.fixture
def say(store: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; returns the exit code, the output and the messages."""

    def run(*words: str, usual: list[str] = USUAL) -> tuple[int, str, str]:
        try:
            code = main.main(["forecast", *usual, "--dir", str(store), *words])
        except SystemExit as error:
            code = int(str(error.code))
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def kept(store: Path, *results: Any, status: str | None = "finished", cost: Any = COST) -> Writer:
    """Keep a suite of these experiments in the store; with the status None it does not end."""
    writer = Archive(Store(store)).begin(["chaoskit", "run"])
    for each in results:
        writer.add(each)
    if status is not None:
        writer.end(status)
        text = writer.path.read_text()
        costs = json.dumps({"ref": json.loads(json.dumps(cost, default=lambda one: vars(one)))} if cost else {})
        writer.path.write_text(text.replace('"checkpoint_costs":{}', f'"checkpoint_costs":{costs}'))
    return writer


def used(store: Path, say: Any, *words: str) -> tuple[int, Any]:
    """The exit code, and the suite that the document names."""
    code, out, _ = say("--json", "-", *words)
    return code, json.loads(out)["suite"]


def test_without_a_store_it_says_that_nothing_was_measured(say: Any, store: Path):
    code, out, err = say()
    assert code == ExitCode.PASS and "NOTHING WAS MEASURED" in out and not err
    assert "On 1,024 GPUs for 30 days expect 15 interruptions." in out
    assert not store.exists(), "a forecast stores nothing"


def test_the_newest_complete_suite_that_measured_something_is_used(say: Any, store: Path):
    old = kept(store, killed())
    good = kept(store, killed(), killed("test_other"))
    kept(store, killed(), status="interrupted")
    kept(store, killed(verdict="skipped"), cost=None)
    code, suite = used(store, say)
    assert (code, suite["id"], suite["ranks"], suite["experiments"]) == (ExitCode.PASS, good.suite.id, 2, 2)
    code, suite = used(store, say, "--suite", old.suite.id)
    assert (code, suite["id"]) == (ExitCode.PASS, old.suite.id)


def test_the_document_conforms_and_goes_alone_to_standard_output(say: Any, store: Path, tmp_path: Path):
    kept(store, killed(), lost())
    code, out, err = say("--json", "-")
    document = conform(ForecastDocument, json.loads(out))
    assert code == ExitCode.PASS and document["sentence"] in err
    file = tmp_path / "forecast.json"
    assert say("--json", str(file))[0] == ExitCode.PASS
    assert json.loads(file.read_text()) == json.loads(out)


def test_the_page_is_written(say: Any, tmp_path: Path):
    page = tmp_path / "forecast.html"
    assert say("-o", str(page))[0] == ExitCode.PASS
    assert "<svg" in page.read_text()
    code, _, err = say("-o", str(tmp_path / "nowhere" / "forecast.html"))
    assert code == ExitCode.USAGE and "does not exist" in err


def test_an_incomplete_suite_that_is_named_is_used_with_a_warning(say: Any, store: Path):
    one = kept(store, killed(), status="interrupted")
    code, out, err = say("--suite", one.suite.id)
    assert code == ExitCode.INCONCLUSIVE and "is incomplete" in err and one.suite.id in out


def test_a_suite_that_was_killed_is_incomplete_and_lacks_its_costs(say: Any, store: Path):
    kept(store, killed(), status=None)
    code, _, err = say("--suite", "last")
    assert code == ExitCode.INCONCLUSIVE
    assert "is incomplete" in err and "did not measure what a checkpoint costs" in err


def test_a_suite_of_an_older_chaoskit_lacks_the_costs(say: Any, store: Path):
    kept(store, killed(), cost=None)
    code, out, err = say()
    assert code == ExitCode.INCONCLUSIVE and "did not measure what a checkpoint costs" in err
    assert "NOTHING WAS MEASURED" not in out


def test_a_suite_that_measured_nothing_cannot_be_named(say: Any, store: Path):
    one = kept(store, killed(verdict="inconclusive"), cost=None)
    code, _, err = say("--suite", one.suite.id)
    assert code == ExitCode.USAGE and "measured neither a checkpoint nor a recovery" in err
    code, out, _ = say()
    assert code == ExitCode.PASS and "NOTHING WAS MEASURED" in out


def test_an_old_suite_says_its_age():
    one = measured(made(killed()))
    begun = datetime.fromisoformat(one.created).astimezone(UTC)
    assert command.weaknesses(one, now=begun + timedelta(days=90)) == []
    (sentence,) = command.weaknesses(one, now=begun + timedelta(days=91))
    assert "is 91 days old" in sentence
    assert command.weaknesses(replace(one, created="yesterday")) == []


def test_damaged_suites_are_left_out_and_named_ones_are_an_error(say: Any, store: Path):
    good = kept(store, killed())
    bad = kept(store, killed())
    bad.path.write_text(bad.path.read_text().replace('"verdict":"pass"', '"verdict":7'))
    code, out, err = say()
    assert code == ExitCode.PASS and "suite ignored" in err and good.suite.id in out
    code, _, err = say("--suite", bad.suite.id)
    assert code == ExitCode.USAGE and "is damaged" in err


@pytest.mark.parametrize("name", ["nosuch", "last"])
def test_a_suite_that_is_not_there_is_an_error(say: Any, name: str):
    code, _, err = say("--suite", name)
    assert code == ExitCode.USAGE and "suite" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gpus", "0"], "whole number from 1"),
        (["--gpus", "-5"], "whole number from 1"),
        (["--gpus", "1e30"], "whole number from 1"),
        (["--gpus", str(10**12)], "gpus must be a whole number from 1 to 10000000"),
        (["--gpus", str(10**30)], f"whole number from 1 to {LARGEST}"),
        (["--days", "0"], "0 is not a positive number"),
        (["--days", "nan"], "nan is not a positive number"),
        (["--days", "inf"], "inf is not a positive number"),
        (["--days", "1e30"], "days must be a positive number up to 3650"),
        (["--mtbf-gpu-hours", "0"], "0 is not a positive number"),
        (["--mtbf-gpu-hours", "-1"], "-1 is not a positive number"),
        (["--mtbf-gpu-hours", "1e30"], "mtbf_gpu_hours must be"),
        (["--mtbf-gpu-hours", "1e-9"], "would hardly ever be done"),
        (["--price", "0"], "0 is not a positive number"),
        (["--price", "1e30"], "price must be"),
        (["--interval", "0s"], "must be a time"),
        (["--interval", "9999999999999d"], "interval must be at most"),
        (["--trials", "0"], "whole number from 1"),
        (["--trials", "5"], "trials must be a whole number from 20"),
        (["--trials", "99999999999"], "trials must be a whole number from 1 to 1000000"),
        (["--seed", "-1"], "whole number from 0"),
        (["--failures", "opt"], "llama3, mttf-by-size, node-day"),
        (["--assume", "spares=129"], "spares=129 are more than the 128 nodes"),
        (["--assume", "spares=-1"], "spares must be"),
        (["--assume", "gpus-per-node=0"], "gpus_per_node must be"),
        (["--assume", "bandwidth=0GB"], "bandwidth must have a unit"),
        (["--assume", "interval=1h", "--interval", "1h"], "say the same"),
        (["--assume", "nonsense=1"], "there is no assumption 'nonsense'"),
    ],
)
def test_impossible_numbers_get_a_sentence_and_exit_code_2(say: Any, words: list[str], sentence: str):
    code, out, err = say(*words)
    assert code == ExitCode.USAGE and sentence in err and not out


def test_the_size_of_the_job_must_be_given(say: Any):
    code, _, err = say(usual=["--days", "3"])
    assert code == ExitCode.USAGE and "--gpus" in err


def test_without_numpy_it_says_how_to_get_it(say: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    code, _, err = say()
    assert code == ExitCode.USAGE and "pip install 'chaoskit[forecast]'" in err


def test_the_command_line_starts_without_numpy():
    import subprocess

    told = "import sys, chaoskit.cli.main as m; m.make_parser(); print('numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_v_lists_every_assumption(say: Any):
    _, none, _ = say()
    assert "32 assumed numbers: -v" in none and "source" not in none
    _, short, _ = say("--price", "2")
    _, long, _ = say("-v")
    assert "and 31 assumed numbers: -v" in short and "stated" in short and "warm-relaunch" not in short
    assert "warm-relaunch" in long and "assumed numbers: -v" not in long
