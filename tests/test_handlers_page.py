"""Handlers of preemption notices on the page of frameworks: what it makes of the answers, and what it complains of."""

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]

TOML = """
title = "A handler, of a trainer"
what = "It saves."
package = "trainer"
requires = ["torch==2.13.0", "trainer==1.2"]
venv = "shared"
[[measurement]]
name = "one"
title = "one node"
notice = "signal"
needs = "a cluster"
variable = "THE_CLUSTER"
command = ["chaoskit", "run", "-k", "test_preempted or false", "--", "torchrun", "train.py", "{out}"]
[[measurement.finding]]
experiment = "test_preempted[signal]"
does = "It leaves."
codes = ["exited-early"]
expected = []
notice = "SIGTERM"
where = "trainer/loop.py:12 resume"
why = "It forgets."
[[measurement.finding]]
experiment = "test_false_notice[signal]"
does = "It goes on."
codes = []
expected = []
"""


@pytest.fixture
def made(monkeypatch):
    """The module that makes the section."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    return importlib.import_module("handlers_page")


@pytest.fixture
def reader(made):
    return importlib.import_module("handlers_examples")


@pytest.fixture
def handlers(made):
    return importlib.import_module("handlers")


@pytest.fixture
def every(reader, tmp_path):
    """One handler."""
    place = tmp_path / "a_handler"
    place.mkdir()
    (place / "handler.toml").write_text(TOML)
    (place / "train.py").write_text("import trainer\n")
    return reader.handlers(tmp_path)


def answer(name, *codes, verdict="pass", **given):
    told = {"resumed_from": None, "steps_lost": 0, "saved_seconds": None, "sufficient_grace": None, **given}
    sentences = ["the job exited with code 0"] if codes else []
    verdict = "fail" if codes else verdict
    return {"name": name, "verdict": verdict, "codes": [*codes], "sentences": sentences, **told}


@pytest.fixture
def found(every):
    """What was measured of it."""
    preempted = answer(
        "test_preempted[signal]", "exited-early",
        resumed_from=20, steps_lost=1, saved_seconds=3.21, sufficient_grace=3.3,
    )  # fmt: skip
    row = {
        "handler": "a_handler",
        "measurement": "one",
        "text": every["a_handler"].digest,
        "versions": {"torch": "2.13.0+cpu", "trainer": "1.2"},
        "python": "3.11.7",
        "chaoskit": "abc1234",
        "when": "2026-11-25T14:00:00+00:00",
        "experiments": [preempted, answer("test_false_notice[signal]")],
    }
    return {"handlers": [row]}


def test_every_number_is_what_was_measured(made, every, found):
    text = "\n".join(made.section(found, every))
    name = "| [A handler, of a trainer](#a-handler-of-a-trainer): one node |"
    assert f"{name} SIGTERM | `test_preempted[signal]` | 3.2 | 3.3 | 1 | fail | `exited-early` |" in text
    assert f"{name} signal | `test_false_notice[signal]` | – | – | – | pass |  |" in text
    assert "[train.py](../../examples/handlers/a_handler/train.py); measured with torch 2.13.0+cpu, trainer 1.2" in text
    assert "\n```sh\nchaoskit run -k 'test_preempted or false' -- torchrun train.py {out}\n```\n" in text
    assert "**one node** (a cluster):" in text
    assert "`exited-early`: It leaves. `trainer/loop.py:12 resume`. It forgets.\n" in text
    assert text.count("Expected before the measurement: pass.") == 1
    assert "chaoskit: “the job exited with code 0”" in text and "pass: It goes on." in text
    assert made.amiss(found, every) == []


def test_what_is_amiss_is_told(made, every, found):
    def amiss(**row):
        told = {**found["handlers"][0], **row}
        return made.amiss({"handlers": [told]}, every)

    assert made.amiss({"handlers": []}, every) == ["handlers/a_handler one: not measured"]
    assert "| not measured |" in "\n".join(made.section({"handlers": []}, every))
    assert amiss(text="another") == ["handlers/a_handler one: a file has changed since it was measured"]
    preempted, false = found["handlers"][0]["experiments"]
    assert amiss(experiments=[preempted]) == ["handlers/a_handler one: test_false_notice[signal] was not measured"]
    assert amiss(experiments=[preempted, false, answer("test_other")]) == [
        "handlers/a_handler one: test_other has no [[measurement.finding]]"
    ]
    assert amiss(experiments=[preempted, answer("test_false_notice[signal]", "hang")]) == [
        "handlers/a_handler one: test_false_notice[signal] has the codes hang; handler.toml has none"
    ]
    open_ = answer("test_false_notice[signal]", verdict="inconclusive")
    assert amiss(experiments=[preempted, open_]) == [
        "handlers/a_handler one: test_false_notice[signal] is inconclusive: "
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('title = "one node"\n', ""), "Measurement: 'title' is missing"),
        (('codes = ["exited-early"]', 'code = "exited-early"'), "Finding: there is no key 'code'; there are"),
        (('package = "trainer"\n', ""), "Handler: 'package' is missing"),
        (("title =", "title"), "handler.toml: "),
    ],
)
def test_a_mistake_is_told(reader, every, tmp_path, change, said):
    (tmp_path / "a_handler" / "handler.toml").write_text(TOML.replace(*change, 1))
    with pytest.raises(reader.Mistake, match=re.escape(said)):
        reader.handlers(tmp_path)


def test_a_measurement_takes_the_place_of_its_own(handlers, found, tmp_path):
    kept = tmp_path / "all.json"
    (row,) = found["handlers"]
    for told in (row, {**row, "measurement": "another"}, {**row, "text": "newer"}):
        handlers.keep(kept, told)
    assert [(one["measurement"], one["text"]) for one in handlers.load(kept)["handlers"]] == [
        ("another", row["text"]), ("one", "newer"),
    ]  # fmt: skip


def test_what_was_measured_with_the_same_files_and_packages_is_left_out(handlers, every, found):
    one, (row,) = every["a_handler"], found["handlers"]
    (what,) = one.measurement
    assert handlers.measured(found, one, what, row["versions"])
    assert not handlers.measured(found, one, what, {**row["versions"], "trainer": "1.3"})
    assert not handlers.measured(found, replace(one, texts={"train.py": ""}), what, row["versions"])


def test_what_this_machine_cannot_measure_is_left_as_it_was(handlers, every, found, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(handlers, "handlers", lambda: every)
    monkeypatch.delenv("THE_CLUSTER", raising=False)
    kept = tmp_path / "all.json"
    handlers.keep(kept, found["handlers"][0])
    assert handlers.main(["--json", str(kept)]) == 0
    assert "a_handler one: left as it was, for it needs a cluster" in capsys.readouterr().err
    assert handlers.load(kept)["handlers"] == found["handlers"]


def test_the_place_that_a_finding_names_must_be_there(handlers, every, tmp_path, monkeypatch):
    packages = tmp_path / "shared" / "lib" / "python3.11" / "site-packages" / "trainer"
    packages.mkdir(parents=True)
    monkeypatch.setattr(sys.modules["frameworks"], "BUILD", tmp_path)
    one = handlers.as_example(every["a_handler"])
    (packages / "loop.py").write_text("\n" * 10 + "def resume():\n    pass\n")
    assert list(handlers.misplaced(one)) == []
    (packages / "loop.py").write_text("def resume():\n    pass\n")
    assert list(handlers.misplaced(one)) == ["handlers/a_handler: trainer/loop.py:12 is not there"]


def test_answers_are_asked_for_where_the_command_takes_it(reader, every, tmp_path):
    (what,) = every["a_handler"].measurement
    words = what.measuring(tmp_path / "a.json", tmp_path / "runs")
    assert words[:7] == [
        "chaoskit", "run", "--no-proof", "--json", str(tmp_path / "a.json"), "--dir", str(tmp_path / "runs"),
    ]  # fmt: skip
    assert words[7:] == [*what.command[2:]]
    own = replace(what, command=("pytest", "test_it.py")).measuring(tmp_path / "a.json", tmp_path / "runs")
    assert own[:3] == ["pytest", "test_it.py", "--chaos-json"] and "--chaos-dir" in own


def test_each_handler_of_ours_explains_what_it_does_not_pass(reader):
    for one in reader.handlers().values():
        assert one.texts.keys() >= {"train.py"} and one.measurement
        for what in one.measurement:
            names = {*re.findall(r"examples/handlers/[\w/.]+", " ".join(what.command))}
            assert names and all((REPOSITORY / name).is_file() for name in names)
            assert all(finding.where for finding in what.finding if finding.codes), what.name
