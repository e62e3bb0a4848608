"""The same hang three times: the other experiments on that job are skipped, unless all are asked for."""

from pathlib import Path

import pytest

from chaoskit.cli.same_hangs import MOST, SameHangs
from chaoskit.engine.result import Result


def stack(line):
    return f'Current thread 0x1 (most recent call first):\n  File "/x/train.py", line {line} in step\n'


def hung(name, *, line=7, job="torchrun train.py", verdict="fail", codes=("hang",), thread="0x1"):
    stacks = {"0": stack(line).replace("0x1", thread), "1": stack(9)}
    return Result(name, verdict, codes=codes, job=job, stacks=stacks)


def told(*results):
    hangs = SameHangs()
    for one in results:
        hangs.add(one)
    return hangs


def test_the_same_hang_again_and_again_is_named_with_its_experiments():
    said = told(hung("a"), hung("b", thread="0x2"), hung("c")).why_not("torchrun train.py")
    assert "(a, b, c)" in said and "train.py:7 in step" in said and "--keep-going" in said
    assert MOST == 3 and told(hung("a"), hung("b")).why_not("torchrun train.py") is None


@pytest.mark.parametrize(
    "third",
    [
        hung("c", line=8),
        hung("c", job="torchrun other.py"),
        hung("c", verdict="pass"),
        hung("c", codes=("crash-loop",)),
        Result("c", "fail", codes=("hang",), job="torchrun train.py"),
    ],
    ids=["elsewhere", "another job", "expected", "no hang", "no stacks"],
)
def test_another_hang_is_not_the_same(third):
    assert told(hung("a"), hung("b"), third).why_not("torchrun train.py") is None


FAKE = (Path(__file__).parents[1] / "fake_runner.py").read_text()
SUITE = f"""
from chaoskit import Job
from chaoskit.verdict import failed, passed

stuck = failed("completed", "the job hung", "hang", stacks={{"0": {stack(7)!r}}})
done = passed("completed", "The job ended with its last step.")

def job(script="train.py"):
    return Job(script, ["--out", "{{out}}"])

def test_a(chaos): chaos.run(job()).verify(stuck)
def test_b(chaos): chaos.run(job()).verify(stuck)
def test_c(chaos): chaos.run(job()).verify(stuck)
def test_d(chaos): chaos.run(job()).verify(done)
def test_other(chaos): chaos.run(job("other.py")).verify(done)
"""


@pytest.mark.parametrize(("options", "skipped"), [((), 1), (("--chaos-keep-going",), 0)])
def test_the_fourth_experiment_is_skipped_with_the_reason(pytester, monkeypatch, options, skipped):
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest(FAKE)
    pytester.makepyfile(test_suite=SUITE)
    done = pytester.runpytest_inprocess("-p", "no:hypothesispytest", "-rs", *options)
    done.assert_outcomes(failed=3, passed=2 - skipped, skipped=skipped)
    if skipped:
        done.stdout.fnmatch_lines(["*hung in the same way in 3 experiments (test_a, test_b, test_c)*"])


def test_workers_count_together(tmp_path):
    one, other = SameHangs(tmp_path / "hangs.jsonl"), SameHangs(tmp_path / "hangs.jsonl")
    one.add(hung("a"))
    other.add(hung("b"))
    assert one.why_not("torchrun train.py") is None
    other.add(hung("c"))
    assert "(a, b, c)" in one.why_not("torchrun train.py") == other.why_not("torchrun train.py")


def test_the_workers_of_a_session_count_together_and_leave_nothing(pytester, monkeypatch):
    pytest.importorskip("xdist")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest(FAKE)
    more = [f"def test_more_{n}(chaos): chaos.run(job()).verify(stuck)" for n in range(12)]
    pytester.makepyfile(test_suite="\n".join([SUITE, *more]))
    done = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-n", "2")
    # A worker may be running its own when the third is written down. Alone, the two would run six.
    assert done.parseoutcomes()["failed"] <= 4
    assert not list(Path("/tmp").glob("chaoskit-*/hangs.jsonl"))
