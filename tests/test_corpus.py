"""The net below the analysis: what `chaoskit analyze` says of a corpus of stored runs is what it always said.

Pinned are verdicts, codes, evidence and figures, not sentences. A line of a failure tells run, check and field, what
was and what is. After a change that is meant: `python benchmarks/corpus.py --pin`, and read its diff.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests import stored_corpus
from tests.stored_corpus import analyze, differences

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return stored_corpus.unpack(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def said(runs):
    """What is said of every run today."""
    return {name: analyze(run) for name, run in runs.items()}


@pytest.fixture(scope="module")
def expected():
    return stored_corpus.expected()


def test_every_run_is_judged_as_it_always_was(said, expected):
    assert said.keys() == expected.keys()
    found = [line for name in expected for line in differences(expected[name], said[name], name)]
    assert not found, f"{len(found)} facts changed:\n" + "\n".join(found[:100])


def test_every_check_passes_somewhere_and_fails_or_cannot_decide_elsewhere(expected):
    outcomes = {}
    for one in expected.values():
        for name, verdict in one["verdicts"].items():
            outcomes.setdefault(name.partition(" ")[0], set()).add(verdict["outcome"])
    assert len(outcomes) >= 27
    for name, seen in outcomes.items():
        assert {"pass"} < seen, f"{name} only says {seen}"


#: Codes that are younger than the corpus. tests/analysis/test_undetermined.py gives the first of them,
#: tests/engine/test_nonfinite_reference.py the second, tests/checks/test_straggler_noticed.py the third,
#: tests/checks/test_saved_within_grace.py the fourth, tests/cli/test_run_a_job_template.py the next two,
#: tests/checks/test_preemption.py the next four, and tests/studies/certificate/test_measures.py the last.
YOUNGER = {
    "data-differs", "reference-nonfinite", "straggler-unnoticed", "grace-too-short",
    "failure-policy-final", "restart-budget-spent",
    "no-emergency-checkpoint", "emergency-too-late", "emergency-torn", "notice-ignored",
    "unpickles-freely", "window-wrong",
}  # fmt: skip


def test_every_code_is_given_by_a_run(expected):
    listed = re.findall(r"^\| `([a-z-]+)` \| [a-z]+ \| ", (DOCS / "reference" / "codes.md").read_text(), re.MULTILINE)
    given = {
        code for one in expected.values() for verdict in one["verdicts"].values() for code in verdict["codes"]
    }
    assert len(listed) > 30
    assert not set(listed) - given - YOUNGER


def test_where_a_run_lies_changes_nothing(runs, expected, tmp_path):
    name = "gallery-rng-missing"
    elsewhere = tmp_path / "another place" / "runs" / name
    shutil.copytree(runs[name], elsewhere)
    assert not list(differences(expected[name], analyze(elsewhere), name))


def altered(run, tmp_path, kind, change):
    """A copy of a stored run in which `change` was made to every event of a kind that a rank recorded."""
    copy = tmp_path / "runs" / run.name
    shutil.copytree(run, copy, symlinks=True)
    for path in sorted((copy / "events").glob("rank-*.jsonl")):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        for event in events:
            if event["e"] == kind:
                change(event)
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return copy


def test_the_net_holds_a_wrong_fingerprint(runs, expected, tmp_path):
    name = "good-killed"

    def spoil(event):
        if event["n"] == 5:
            event["state"]["optimizer"] = "0" * 32

    found = list(differences(expected[name], analyze(altered(runs[name], tmp_path, "step", spoil)), name))
    assert any(line.startswith(f"{name} > verdicts > matches_reference > outcome: was pass") for line in found)


def test_the_net_holds_a_fact_that_changes_no_verdict(runs, expected, tmp_path):
    name = "gallery-rng-missing"

    def spoil(event):
        event["state"]["rng.torch"] = "0" * 32

    found = list(differences(expected[name], analyze(altered(runs[name], tmp_path, "step", spoil)), name))
    assert any("state_restored > evidence > findings" in line for line in found), found


def test_a_difference_is_told_by_run_check_and_field():
    was = {"verdicts": {"completed": {"codes": [], "evidence": {"steps": 60, "reached": {"0": 60}}}}}
    now = {"verdicts": {"completed": {"codes": ["hang"], "evidence": {"steps": 59, "more": 1}}}}
    assert list(differences(was, now, "good")) == [
        'good > verdicts > completed > codes: was [], is ["hang"]',
        "good > verdicts > completed > evidence > steps: was 60, is 59",
        'good > verdicts > completed > evidence > reached: was {"0": 60}, is nothing',
        "good > verdicts > completed > evidence > more: was nothing, is 1",
    ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("rank 1 died at step 26", ["1", "26"]),
        ("at step 26 rank 1 was killed", ["1", "26"]),
        ("model and checkpoints/step-00000010/shared.pt are off by 1e-06", None),
        ("step-00000010", "step-00000010"),
    ],
)
def test_of_a_text_its_numbers_and_names_are_kept(text, kept):
    found = stored_corpus.facts(text)
    if kept is None:
        kept = ["1e-06", "checkpoints/step-00000010/shared.pt", "model"]
    assert found == (sorted(kept) if isinstance(kept, list) else kept)
