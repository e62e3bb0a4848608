"""An upgrade for people, for machines and as a page: what differs is said, what does not is not, and nothing runs."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from chaoskit.job import Job
from chaoskit.report.html import upgrade_page
from chaoskit.report.terminal import upgrade_report
from chaoskit.studies.upgrade.band import LossTolerance, stated
from chaoskit.studies.upgrade.crossing import Crossing
from chaoskit.studies.upgrade.interpreter import Interpreter
from chaoskit.studies.upgrade.upgrade import WAYS, Upgrade
from tests.two_suites import baseline, drifted, result, suite

HOSTILE = '<script>alert("1")</script> [bold]x[/bold]'
OLD = Interpreter("/o/python", {"python": "3.11.7", "torch": "2.13.0"}, {"numpy": "2.1", "rich": "14"})
NEW = Interpreter("/n/python", {"python": "3.11.7", "torch": "2.14.1", "nccl": "2.30.7"}, {"numpy": "2.4"})
A, B = result("test_a"), result("test_b")
EXACT = tuple(
    Crossing(*way, "exact", "every component is that of step 20", position=20, worst=0.0) for way in WAYS
)


def upgrade(*, old=(A, B), new=(A, B), crossings=EXACT, band=LossTolerance(0.0, "measured"), **new_fields):  # noqa: B008
    made = Upgrade.of(OLD, NEW, Job.from_command(["torchrun", "t.py", "{out}"]), band=band)
    suites = {"old": suite(*old), "new": suite(*new, **new_fields)}
    return replace(made, suites=suites, crossings=crossings)


def broken(word, sentence="the optimizer was not restored", codes=("optimizer-not-restored",)):
    return (*EXACT[:2], replace(EXACT[2], word=word, sentence=sentence, codes=codes, run="/x/runs/1"), EXACT[3])


def shown(one):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    upgrade_report.show_versions(one, console)
    upgrade_report.show(one, console)
    return console.file.getvalue()


def test_versions_stand_side_by_side():
    said = shown(upgrade())
    for row in (
        "python 3.11.7 3.11.7",
        "torch 2.13.0 2.14.1",
        "nccl - 2.30.7",
        "numpy 2.1 2.4",
        "only old 1 more package",
    ):
        assert row in [" ".join(line.split()) for line in said.splitlines()]


def test_where_nothing_got_worse_that_is_said_and_no_more():
    one = upgrade()
    said = shown(one)
    assert int(one.exit_code) == 0
    assert "2 experiments under both interpreters: no verdict differs" in said
    assert said.splitlines()[-1] == (
        "NOTHING GOT WORSE: 2 experiments under both interpreters, none worse; "
        "the checkpoint of old resumes exactly under new; "
        "the checkpoint of new resumes exactly under old"
    )
    for word in ("WORSE test", "resumes incorrectly", "does not load", "undecided", "diverge at"):
        assert word not in said


def test_references_that_part_a_little_are_told_and_no_failure():
    new = {"ref": drifted(baseline(), since=4, by=lambda step: 1)}
    one = upgrade(baselines=new)
    assert "diverge at step 4, rank 0, in loss" in shown(one) and int(one.exit_code) == 0
    assert int(upgrade(baselines=new, band=stated(1e-9)).exit_code) == 1
    assert int(upgrade(baselines=new, band=stated(1e-3)).exit_code) == 0


@pytest.mark.parametrize(
    "word, code, said",
    [
        ("wrong", 1, "WORSE: the checkpoint of old resumes incorrectly under new"),
        ("no-load", 1, "WORSE: the checkpoint of old does not load under new"),
        ("undecided", 3, "undecided: the checkpoint of old could not be judged under new"),
        (
            "within",
            0,
            "of old resumes within the tolerance under new; the checkpoint of new resumes exactly under old",
        ),
    ],
)
def test_each_verdict_of_a_crossing_is_said(word, code, said):
    one = upgrade(crossings=broken(word))
    assert int(one.exit_code) == code
    assert said in shown(one).splitlines()[-1]
    assert "  explain  chaoskit explain /x/runs/1" in shown(one)
    told = upgrade_report.document(one)
    assert (told["exit_code"], told["crossings"][2]["verdict"]) == (code, word)


def test_a_control_that_is_wrong_is_not_the_upgrades_doing():
    one = upgrade(crossings=(replace(EXACT[0], word="wrong"), *EXACT[1:]))
    assert int(one.exit_code) == 1
    assert (
        "the checkpoint of old resumes incorrectly under old (control, without an upgrade)"
        in shown(one).splitlines()[-1]
    )


def test_a_verdict_that_became_worse_is_said():
    bad = replace(B, verdict="fail", codes=("hang",), sentences=("Rank 1 hung.",))
    one = upgrade(new=(A, bad))
    assert int(one.exit_code) == 1
    assert "WORSE test_b: pass → fail (hang)\n  Rank 1 hung." in shown(one)
    assert int(upgrade(old=(A, bad), new=(A, bad)).exit_code) == 0


def test_what_was_interrupted_is_told_as_far_as_it_got():
    one = replace(upgrade(), suites={"old": suite(A)}, crossings=(), band=None)
    said = shown(one)
    assert "the experiments did not run under both interpreters" in said and "no checkpoint was exchanged" in said
    assert int(one.exit_code) == 3
    told = upgrade_report.document(one)
    assert (told["compare"], told["new"]["suite"], told["band"]) == (None, None, None)
    assert "not run under both" in upgrade_page.render(one)


def test_the_document_is_json(tmp_path):
    upgrade_report.write(upgrade(), str(tmp_path / "u.json"))
    told = json.loads((tmp_path / "u.json").read_text())
    assert (told["schema"], told["answer"], told["versions"]["torch"]) == (1, "same", ["2.13.0", "2.14.1"])
    assert told["new"]["command"] == ["/n/python", "-m", "torch.distributed.run", "t.py", "{out}"]
    assert told["compare"]["answer"] == "same"
    assert [each["control"] for each in told["crossings"]] == [True, True, False, False]


def test_the_page_has_every_part():
    bad = replace(B, verdict="fail", codes=("hang",), sentences=("Rank 1 hung.",))
    text = upgrade_page.render(upgrade(new=(A, bad), crossings=broken("no-load", "RuntimeError: no")))
    for part in (
        'id="answer"', 'id="checkpoints"', 'id="versions"', 'id="experiments"',
        '<td data-verdict="no-load" class="wrong">', '<td data-verdict="exact">', "RuntimeError: no", "2.14.1",
        "does not load", "Rank 1 hung.", "chaoskit explain /x/runs/1",
    ):  # fmt: skip
        assert part in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_nothing_that_a_job_said_becomes_markup():
    evil = replace(B, verdict="fail", sentences=(HOSTILE,), codes=(HOSTILE,), name=HOSTILE)
    new = Interpreter(
        f"/{HOSTILE}/python", {"python": HOSTILE, "torch": HOSTILE}, {HOSTILE: HOSTILE, "numpy": HOSTILE}
    )
    one = upgrade(new=(A, replace(evil, nodeid=B.nodeid)), crossings=broken("wrong", HOSTILE, (HOSTILE,)))
    one = replace(one, new=replace(one.new, interpreter=new, failed=HOSTILE))
    text = upgrade_page.render(one)
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text
    assert HOSTILE in shown(one)
