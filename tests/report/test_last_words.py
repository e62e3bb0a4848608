"""What the ranks that died wrote last: their own lines, the traceback, and never more than a page bears."""

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.report import last_words as words
from tests.history_writer import Writer, killed
from tests.report.browser.stored import gone, passed, stored
from tests.report.test_lanes import struck

TRACE = [
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in step',
    "    boom()",
    "ValueError: boom",
]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / ".chaoskit")


def told(store, run, logs=None):
    made = stored(store, run, logs=logs or {"launch-0.log": ""})
    return words.last_words(made.case, made.dir)


def log(*lines, mark="[default0]:"):
    return "".join(f"{mark}{line}\n" for line in lines)


def own_files(run_dir, launch, rank, **streams):
    place = run_dir / "logs" / "ranks" / f"launch-{launch}" / "abc_xyz" / "attempt_0" / str(rank)
    place.mkdir(parents=True)
    for name, text in streams.items():
        (place / f"{name}.log").write_text(text)


def test_the_rank_that_a_fault_killed_is_told_by_its_own_lines(store):
    both = log("step 24", "step 25") + log("rank one here", mark="[default1]:[rank1]: ")
    run = struck(Writer().launch().live(until=25), 1).died().launch().live(base=20, ends=True).exit(0).end()
    found = told(store, run, {"launch-0.log": both, "launch-1.log": log("resumed")})
    assert [(one.who, one.lines, one.traceback) for one in found] == [
        ("rank 1 in launch 0", "rank one here", ""),
        ("rank 0 in launch 0", "step 24\nstep 25", ""),
    ]
    assert "killed by" in found[0].how and "killed by" not in found[1].how


def test_the_files_of_a_rank_come_before_the_log_of_the_launch(store):
    made = stored(store, gone(), logs={"launch-0.log": log("not this")})
    own_files(made.dir, 1, 0, stdout="resumed\n", stderr=log(*TRACE, mark="[rank0]: "))
    found = [one for one in words.last_words(made.case, made.dir) if one.launches == (1,)]
    assert (found[0].rank, found[0].lines) == (0, "resumed") and found[0].traceback == "\n".join(TRACE)
    assert found[0].reason == "ValueError: boom"


def test_launches_with_the_same_words_stand_together(store):
    found = told(store, gone(), {f"launch-{n}.log": log("no checkpoint fits", *TRACE) for n in range(4)})
    (again,) = (one for one in found if len(one.launches) > 1)
    assert again.who == "rank 0 in launches 0, 1, 2, 3" and again.traceback.endswith("ValueError: boom")


def test_ranks_that_decided_to_end_are_told_too(store):
    run = Writer().launch().live(until=25, ends=True).exit(3).end("gave-up")
    (one,) = told(store, run, {"launch-0.log": log("error: the storage fails")})
    assert one.lines == "error: the storage fails" and "exit code 3" in one.how and one.rank == 0


def test_a_launch_in_which_no_rank_began(store):
    run = Writer().launch().exit(2).end("gave-up")
    (one,) = told(store, run, {"launch-0.log": "train.py: error: unrecognized arguments: --oops\n"})
    assert one.rank is None and one.reason.endswith("--oops") and one.who == "no rank in launch 0"


def test_a_log_without_marks_is_laid_on_no_rank(store):
    (one, *_) = told(store, passed(), {"launch-0.log": "step 1\nstep 2\n"})
    assert "does not say which rank wrote what" in one.how and one.lines == "step 1\nstep 2"


def test_a_rank_that_wrote_nothing_and_a_log_that_is_gone(store):
    assert told(store, killed(), {"launch-0.log": "", "launch-1.log": ""}) == []


def test_what_a_finished_job_wrote_is_no_last_word(store):
    run = Writer().launch().live(ends=True).exit(0).end()
    assert told(store, run, {"launch-0.log": log("done", *TRACE)}) == []


def test_tracebacks_of_one_exception_stay_together():
    between = "During handling of the above exception, another exception occurred:"
    chained = [*TRACE, "", between, "", *TRACE[:-1], "E: 2"]
    lines, traceback = words.split(["one", *TRACE, "two", *chained])
    assert traceback.splitlines()[-1] == "E: 2" and traceback.count("Traceback") == 2
    assert lines.endswith("two")


def test_everything_is_bounded(store):
    deep = [TRACE[0], *(f"  frame {n}" for n in range(5000)), "RecursionError: deep"]
    before = [f"{n} " + "x" * 5000 for n in range(100)]
    lines, traceback = words.split([*before, *deep])
    assert len(lines.splitlines()) == words.LINES and len(traceback.splitlines()) == words.TRACEBACK + 1
    assert traceback.splitlines()[-1] == "RecursionError: deep" and "lines …" in traceback
    assert max(map(len, lines.splitlines())) <= words.LETTERS + 1
    many = {f"launch-{n}.log": log(*(f"{n} {line} " + "y" * 300 for line in range(5000))) for n in range(4)}
    found = told(store, gone(), many)
    assert len(found) <= words.DEATHS and sum(len(one.lines) for one in found) < 40_000


def test_control_characters_and_progress_bars_are_gone(store):
    run = Writer().launch().live(until=25, ends=True).exit(1).end("gave-up")
    said = "\x1b[31mred\x1b[0m\n10%\r50%\r100% done\nnul\x00 \ufffd\n"
    (one,) = told(store, run, {"launch-0.log": log(*said.splitlines())})
    assert "\x1b" not in one.lines and "\x00" not in one.lines and "red" in one.lines
