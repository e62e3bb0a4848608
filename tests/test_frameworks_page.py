"""`docs/reference/frameworks.md`: what it makes of what was measured, what it complains of, that it is up to date."""

import argparse
import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "reference" / "frameworks.md"

TOML = """
title = "A Trainer"
package = "trainer"
requires = ["torch==2.13.0", "trainer==1.2"]
venv = "shared"
command = ["torchrun", "--nproc-per-node", "2", "{script}", "{out}"]
env = {TOKENS = "a b"}
change = "Say `seed=True`."
[experiments_skipped]
corrupt = "It keeps no checkpoint that could be damaged."
[[fault]]
variants = ["augment"]
experiments = ["mid-epoch", "twice"]
codes = ["rng-not-restored"]
where = "trainer/loop.py:12 resume"
why = "It seeds again."
[[blind]]
component = "ema"
why = "It is a list of numpy arrays."
remedy = "Keep it as tensors."
"""
TRAIN, EXACT = "import trainer\n\ntrainer.run()\n", "import trainer\n\ntrainer.run(seed=True)\n"
NAMES = ("control", "one_rank_mid_epoch", "epoch_boundary", "twice", "sigterm_one_rank", "middle_of_save",
         "between_writes")  # fmt: skip


@pytest.fixture
def made(monkeypatch):
    """The modules that make the page."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    return importlib.import_module("frameworks_page")


@pytest.fixture
def reader(made):
    return importlib.import_module("frameworks_examples")


@pytest.fixture
def frameworks(made):
    return importlib.import_module("frameworks")


@pytest.fixture
def every(reader, tmp_path):
    """One example."""
    place = tmp_path / "a_trainer"
    place.mkdir()
    for name, text in (("example.toml", TOML), ("train.py", TRAIN), ("exact.py", EXACT)):
        (place / name).write_text(text)
    return reader.examples(tmp_path)


def row(every, script, variant, failed=None, **cells):
    """One that was measured: all passed but for what `failed` holds, by experiment."""
    answers = {}
    for name in NAMES:
        codes = (failed or {}).get(name, [])
        said = ["every rank: RNG not restored"] if codes else []
        answers[f"test_{name}"] = {"verdict": "fail" if codes else "pass", "codes": codes, "sentences": said}
    at = {"model": "8", "buffers": "8 (6…8)", "optimizer": "8", "lr": "8 (any)", "rng": "8", "batch": "8", **cells}
    table = [
        {"incarnation": life, "rank": rank, "expected": due, "cells": found}
        for life, due, found in ((0, 0, dict.fromkeys(at, "0")), (1, 8, at))
        for rank in (0, 1)
    ]
    return {
        **_head(every, script, variant),
        "answers": answers,
        "table": table,
        "blind": {"ema": "cannot be seen", "sampler": "has no state"},
    }


def repeated(every, variant, runs=7, **verdicts):
    return {**_head(every, "exact.py", variant), "runs": runs, "verdicts": verdicts or {"pass": runs}, "codes": {}}


def _head(every, script, variant):
    return {
        "example": "a_trainer",
        "script": script,
        "variant": variant,
        "text": every["a_trainer"].digest(script),
        "versions": {"torch": "2.13.0+cpu", "trainer": "1.2"},
        "python": "3.11.7",
        "chaoskit": "abc1234",
        "when": "2026-11-22T14:00:00+00:00",
    }


LOST = {"one_rank_mid_epoch": ["rng-not-restored"], "twice": ["rng-not-restored"]}


@pytest.fixture
def found(every):
    """All that there is to measure of it, as it should be."""
    rows = [row(every, "train.py", "plain"), row(every, "train.py", "augment", LOST, rng="mixed", batch="none")]
    rows += [row(every, "train.py", "workers")]
    rows += [row(every, "exact.py", variant) for variant in ("plain", "augment", "workers")]
    return {"rows": rows, "repeats": [repeated(every, v) for v in ("plain", "augment", "workers")]}


def test_every_cell_is_what_was_measured(made, every, found):
    text = made.page(found, every, [{"title": "Other", "why": "It needs an accelerator."}], {})
    assert text.startswith("<!-- Made by `make frameworks`")
    assert "**0 of 1 programs resume exactly as they are in every variant; 1 more do with" in text
    assert (
        "| [A Trainer](#a-trainer), trainer 1.2 | exact | `rng-not-restored` | exact | Say `seed=True`. "
        "| exact; 21 of 21 further runs passed |"
    ) in text
    name = "| [A Trainer](#a-trainer)"
    assert f"{name} | plain | 8 | 8 | 8 | 8 | any | – | 8 | 8 | ✓ | ✓ | ✓ | ✓ | ✓ | – |" in text
    assert f"{name} | augment | 8 | 8 | 8 | 8 | any | – | **mixed** | **none** | ✗ | ✓ | ✗ | ✓ | ✓ | – |" in text
    assert f"{name}, changed | augment | 8 |" in text
    assert (
        "| `train.py` | augment | pass | `rng-not-restored` | pass | `rng-not-restored` | pass | pass | not run |"
    ) in text
    assert "Not run: corrupt: It keeps no checkpoint that could be damaged." in text
    assert (
        "\nTOKENS='a b' chaoskit run -k 'control or one_rank_mid_epoch or epoch_boundary or twice or sigterm_one_rank "
        "or middle_of_save or between_writes or last_writer' -- "
        "torchrun --nproc-per-node 2 examples/a_trainer/exact.py {out} --workers\n"
    ) in text
    assert "`trainer/loop.py:12 resume`. It seeds again." in text and "“every rank: RNG not restored”" in text
    assert (
        "  TOKENS='a b' chaoskit run -k 'one_rank_mid_epoch or twice' -- torchrun --nproc-per-node 2 "
        "examples/a_trainer/train.py {out} --augment\n"
    ) in text
    assert "-trainer.run()\n+trainer.run(seed=True)\n```" in text
    assert "torch 2.13.0+cpu, trainer 1.2, Python 3.11.7; 2026-11-22 (chaoskit abc1234)." in text
    assert "- ema: It is a list of numpy arrays. Keep it as tensors." in text and "- sampler: has no state" in text
    assert "- Other: It needs an accelerator." in text
    assert made.troubles(found, every) == [] and "Not explained" not in text


def test_what_the_probe_costs_stands_there_where_it_was_measured_of_the_script_as_it_is(made, every, found):
    cost = {**_head(every, "train.py", "plain"), "ratio": 1.234, "cost_ms": 0.456, "step_ms": 2.34, "rounds": 3}
    assert "What the probe costs" not in made.page(found, every, [], {})
    text = made.page({**found, "overhead": [cost]}, every, [], {})
    assert "| [A Trainer](#a-trainer) | 1.23× | 2.3 ms | 0.46 ms | 3 |" in text
    assert "What the probe costs" not in made.page({**found, "overhead": [{**cost, "text": "another"}]}, every, [], {})


def test_ranks_that_are_apart_are_told_apart(made, every, found):
    found["rows"][1]["table"][-1]["cells"] = {"model": "8", "rng": "0"}
    told = "| augment | 8 | 8 | 8 / – | 8 / – | any / – | – | **mixed** / **0** | **none** / – |"
    assert told in made.page(found, every, [], {})


def test_what_is_lost_at_one_resume_is_lost_at_others_and_mended_everywhere(made, every, found):
    def amiss(place, **codes):
        told = row(every, *place, {**(LOST if place[0] == "train.py" else {}), **codes})
        rest = [one for one in found["rows"] if (one["script"], one["variant"]) != place]
        return made.troubles({**found, "rows": [told, *rest]}, every)

    assert amiss(("train.py", "augment"), sigterm_one_rank=["rng-not-restored"]) == []
    assert amiss(("train.py", "plain"), sigterm_one_rank=["rng-not-restored"]) != []
    assert amiss(("exact.py", "augment"), sigterm_one_rank=["rng-not-restored"]) == [
        "a_trainer/exact.py augment: rng-not-restored in sigterm (test_sigterm_one_rank) has no [[fault]]"
    ]


def test_of_a_damaged_checkpoint_that_is_taken_nobody_says_beforehand_what_is_lost(made, every, found):
    """It hangs on where the damage fell; not so for what is no consequence, or where no source says why it is taken."""
    (one,) = every.values()
    taken = replace(one.fault[0], experiments=("torn",), codes=("corrupt-accepted",), variants=("plain",))
    row_ = row(every, "train.py", "plain", {"between_writes": ["corrupt-accepted", "model-not-restored", "hang"]})
    rows = {**found, "rows": [row_, *found["rows"][1:]]}
    assert made.troubles(rows, {one.name: replace(one, fault=(*one.fault, taken))}) == [
        "a_trainer/train.py plain: hang in torn (test_between_writes) has no [[fault]]"
    ]
    assert len(made.troubles(rows, every)) == 3


def test_a_program_that_does_not_come_back_says_so(made, every, found):
    del found["rows"][1]["table"][2:]
    assert "| augment | it did not recover |" in made.page(found, every, [], {})


def test_what_is_amiss_is_told(made, every, found):
    def amiss(**changes):
        return made.troubles({**found, **changes}, every)

    assert amiss(rows=found["rows"][1:]) == ["a_trainer/train.py plain: not measured"]
    other = [{**found["rows"][0], "text": "another"}, *found["rows"][1:]]
    assert amiss(rows=other) == ["a_trainer/train.py plain: the script has changed since it was measured"]
    assert amiss(repeats=found["repeats"][1:]) == [
        "a_trainer/exact.py: 14 further runs, 20 are wanted (--repeat 20)"
    ]
    bad = [repeated(every, "plain", **{"pass": 6, "fail": 1}), *found["repeats"][1:]]
    assert "of the further runs not all passed: plain" in amiss(repeats=bad)[0]

    plain = row(every, "train.py", "plain", {"between_writes": ["torn-checkpoint"]})
    told = amiss(rows=[plain, *found["rows"][1:]])
    assert told == ["a_trainer/train.py plain: torn-checkpoint in torn (test_between_writes) has no [[fault]]"]
    assert "## Not explained\n\n- a_trainer/train.py plain" in made.page({**found, "rows": [plain]}, every, [], {})

    seen = row(every, "train.py", "augment")
    told = amiss(rows=[seen if one["variant"] == "augment" and one["script"] == "train.py" else one
                       for one in found["rows"]])  # fmt: skip
    assert told == [
        "a_trainer/train.py augment: rng-not-restored was not seen in mid-epoch, twice, as example.toml has it",
    ]

    still = row(every, "exact.py", "augment", {"twice": ["rng-not-restored"]})
    told = amiss(rows=[*found["rows"][:4], still, found["rows"][5]])
    assert told == ["a_trainer/exact.py augment: twice does not pass: it is to be exact, or example.toml has an "
                    "'unfixable' that says why not"]  # fmt: skip

    undecided = row(every, "train.py", "plain")
    undecided["answers"]["test_twice"].update(verdict="inconclusive", sentences=["no save was seen"])
    told = amiss(rows=[undecided, *found["rows"][1:]])
    assert told == ["a_trainer/train.py plain: twice (test_twice) is inconclusive: no save was seen"]

    skipped = row(every, "exact.py", "plain")
    skipped["answers"]["test_twice"].update(verdict="skipped", sentences=["one save"])
    assert "twice does not pass" in amiss(rows=[*found["rows"][:3], skipped, *found["rows"][4:]])[0]
    endless = row(every, "exact.py", "plain")
    endless["answers"]["test_epoch_boundary"].update(verdict="skipped", sentences=["one epoch only"])
    assert amiss(rows=[*found["rows"][:3], endless, *found["rows"][4:]]) == [] and made.exact(endless)


def test_a_row_takes_the_place_of_its_own(frameworks, every, found, tmp_path):
    kept = tmp_path / "all.json"
    for one in found["rows"]:
        frameworks.keep(kept, "rows", one)
    frameworks.keep(kept, "repeats", found["repeats"][0])
    empty = {"overhead": [], "handlers": []}
    assert frameworks.load(kept) == {"rows": found["rows"], "repeats": found["repeats"][:1], **empty}

    # Columns that were left out this time stay, as long as the script and the packages are what they were.
    again = row(every, "train.py", "augment")
    again["answers"] = {"test_twice": {**again["answers"]["test_twice"], "verdict": "inconclusive"}}
    frameworks.keep(kept, "rows", {**again, "table": [], "blind": {}})
    merged = frameworks.load(kept)["rows"][1]
    assert [merged["answers"][f"test_{name}"]["verdict"] for name in ("twice", "one_rank_mid_epoch")] == [
        "inconclusive",
        "fail",
    ]
    assert merged["table"] == found["rows"][1]["table"]
    frameworks.keep(kept, "rows", {**again, "text": "another"})
    assert list(frameworks.load(kept)["rows"][1]["answers"]) == ["test_twice"]
    assert len(frameworks.load(kept)["rows"]) == 6


def test_what_is_wanted_and_what_was_measured(frameworks, every, found):
    one = every["a_trainer"]

    def wanted(**options):
        told = argparse.Namespace(**{"script": None, "full": False, "repeat": 0, **options})
        return [" ".join(each) for each in frameworks._wanted(one, told, ["plain", "workers"])]

    rows = [f"rows {script} {variant}" for script in ("train.py", "exact.py") for variant in ("plain", "workers")]
    repeats = ["repeats exact.py plain", "repeats exact.py workers"]
    assert wanted() == rows and wanted(script="train.py") == rows[:2]
    assert wanted(repeat=20) == repeats and wanted(full=True) == rows + repeats
    assert wanted(script="train.py", repeat=20) == []

    versions = found["rows"][0]["versions"]
    assert frameworks.measured(found["rows"], one, "train.py", "plain", versions)
    assert not frameworks.measured(found["rows"], one, "train.py", "plain", {**versions, "trainer": "1.3"})
    assert not frameworks.measured(found["rows"][1:], one, "train.py", "plain", versions)


def test_the_place_of_a_fault_must_be_there(frameworks, every, monkeypatch, tmp_path):
    packages = tmp_path / "shared" / "lib" / "python3.11" / "site-packages"
    (packages / "trainer").mkdir(parents=True)
    (packages / "trainer" / "loop.py").write_text(
        "class Loop:\n    @property\n    def resume(self):\n        pass\n"
    )
    monkeypatch.setattr(frameworks, "BUILD", tmp_path)
    one = every["a_trainer"]

    def said(where):
        return list(frameworks.misplaced(replace(one, fault=(replace(one.fault[0], where=where),))))

    assert said("trainer/loop.py:4 resume") == said("trainer/loop.py:3 Loop.resume") == []
    assert said("trainer/loop.py:1") == []
    assert said("trainer/loop.py:4 load") == ["a_trainer: trainer/loop.py:4 is in Loop.resume, not in load"]
    assert said("trainer/loop.py:12 resume") == ["a_trainer: trainer/loop.py:12 is not there"]
    assert said("trainer/other.py:1") == ["a_trainer: trainer/other.py:1 is not there"]
    assert "is no place such as" in said("trainer/loop.py resume")[0]
    assert list(frameworks.misplaced(replace(one, venv="nowhere"))) == []


@pytest.mark.parametrize(
    ("wish", "there"),
    [
        ("torch==2.13.0", True),
        ("torch==2.13", False),
        ("torch", True),
        ("Some_Name[extra]==1.0", True),
        ("x", False),
    ],
)
def test_a_pinned_version_is_there_or_not(frameworks, wish, there):
    assert frameworks._there(wish, {"torch": "2.13.0+cpu", "some-name": "1.0"}) is there


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('package = "trainer"\n', ""), "'package' is missing"),
        (('venv = "shared"', 'venv = "shared"\nvenvs = 1'), "there is no key 'venvs'; there are title, package"),
        (("{script}", "train.py"), "command has no {script}"),
        (('variants = ["augment"]', 'variants = ["augmented"]'), "[[fault]]: variants: there is no 'augmented'"),
        (("corrupt =", "corrupted ="), "experiments_skipped: there is no 'corrupted'"),
        (('remedy = "Keep it as tensors."', ""), "[[blind]]: 'remedy' is missing"),
        (("title =", "title"), "example.toml: "),
        (('requires = ["torch==2.13.0", ', 'requires = "torch" #'), "requires is a list of words"),
    ],
)
def test_a_mistake_in_an_example_is_told(reader, every, tmp_path, change, said):
    (tmp_path / "a_trainer" / "example.toml").write_text(TOML.replace(*change))
    with pytest.raises(reader.Mistake, match=re.escape(said)):
        reader.examples(tmp_path)
    assert reader.examples(tmp_path, only=["another"]) == {}


def test_examples_that_share_an_environment_agree_on_what_is_in_it(reader, every, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "train.py").write_text(TRAIN)
    (tmp_path / "other" / "example.toml").write_text(TOML.replace("trainer==1.2", "trainer==1.3"))
    with pytest.raises(reader.Mistake, match=re.escape("other wants trainer==1.3, a_trainer trainer==1.2")):
        reader.examples(tmp_path)


def test_the_page_is_of_the_examples_as_they_are(made, reader):
    """An example was edited: `make frameworks` measures it again and writes the page."""
    text, every = PAGE.read_text(), reader.examples()
    headings = re.findall(r"^## (.+)$", text, re.M)
    assert [one.title for one in every.values()] == [title for title in headings if title in _titles(every)]
    for one in every.values():
        section = text.partition(f"\n## {one.title}\n")[2].partition("\n## ")[0]
        assert f"(#{made._anchor(one.title)})" in text
        assert len(one.scripts) == 1 or f"```diff\n{made.diff(one)}\n```" in section
        assert all(f"`{fault.where}`. {fault.why}" in section for fault in one.fault)
        shown = [one.shown(script, variant, one.columns) for script in one.scripts for variant in reader.VARIANTS]
        assert all(f"\n{command}\n" in section for command in shown)
    assert "## Not explained" not in text


def test_the_page_is_made_of_what_was_measured_and_never_by_hand(made, reader, frameworks):
    assert PAGE.read_text() == made.page(
        frameworks.load(frameworks.ANSWERS), reader.examples(), reader.left_out(), frameworks.handlers()
    )


def _titles(every):
    return {one.title for one in every.values()}
