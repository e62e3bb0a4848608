"""A control that does not come to its end is no control, and the error says why."""

import json

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.engine.control_failure import check_control
from chaoskit.errors import ReferenceFailed
from tests.history_writer import Writer


def test_the_end_of_the_log_is_in_the_error(tmp_path):
    run_dir = tmp_path / "control-0"
    for part in ("events", "logs"):
        (run_dir / part).mkdir(parents=True)
    said = "one\nTraceback (most recent call last):\nValueError: no such data\n"
    (run_dir / "logs" / "launch-0.log").write_text(said)
    with pytest.raises(ReferenceFailed, match="no such data") as caught:
        check_control(run_dir, "gave-up")
    assert caught.value.run == str(run_dir)


#: How torchrun tells that a rank has died; it writes this in each case.
GAVE_UP = """W1124 23:24:00.887000 7 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 13 SIGTERM
E1124 23:24:01.087000 7 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 2) local_rank: 0
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 4, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""
TRACEBACK = "[default1]:Traceback (most recent call last):\n[default1]:KeyError: 'lr'\n"
#: The frames of rank 0 as they come, with those of another rank in between.
LONG = "\n".join([
    "[default0]:Traceback (most recent call last):",
    *(f'[default{number % 2}]:  File "train.py", line {number}, in f' for number in range(100)),
    "[default0]:KeyError: 'lr'",
    "[default0]:and so on",
])


@pytest.mark.parametrize(
    ("log", "says", "without"),
    [
        ("[default0]:python3: can't open file '/train.py'\n" + GAVE_UP, "can't open file", "ChildFailedError"),
        ("[default1]:epoch 1\n" + TRACEBACK + GAVE_UP, "KeyError: 'lr'", "epoch 1"),
        (GAVE_UP + TRACEBACK, "KeyError: 'lr'", "torchrun"),
        (GAVE_UP, "ChildFailedError", "SIGTERM"),
        (LONG, "KeyError: 'lr'", "line 20,"),
    ],
    ids=["no traceback", "traceback", "another node is later", "torchrun alone", "a long one"],
)
def test_the_cause_is_not_hidden_behind_the_summary_of_torchrun(tmp_path, log, says, without):
    for part in ("events", "logs"):
        (tmp_path / part).mkdir()
    (tmp_path / "logs" / "launch-0.log").write_text(log)
    with pytest.raises(ReferenceFailed) as caught:
        check_control(tmp_path, "gave-up")
    assert says in str(caught.value) and without not in str(caught.value)


#: Rank 0 fails because rank 1 has failed, and says so first.
BOTH = """[default0]:[rank0]: Traceback (most recent call last):
[default0]:[rank0]:   File "train.py", line 8, in <module>
[default0]:[rank0]: RuntimeError: Connection closed by peer
[default1]:[rank1]: Traceback (most recent call last):
[default1]:[rank1]:   File "train.py", line 7, in <module>
[default1]:[rank1]: KeyError: 'lr'
[default1]:[rank1]: During handling of the above exception, another exception occurred:
[default1]:[rank1]: Traceback (most recent call last):
[default1]:[rank1]:   File "train.py", line 9, in <module>
[default1]:[rank1]: ValueError: no such data:
[default1]:[rank1]:   see the catalogue
"""


def test_the_exception_of_the_job_comes_first_and_no_banner(tmp_path, monkeypatch):
    for part in ("events", "logs"):
        (tmp_path / part).mkdir()
    (tmp_path / "logs" / "launch-0.log").write_text(BOTH + GAVE_UP + "train.py FAILED\n")
    run = Writer(ranks=2).launch().live(until=3)
    for rank, said in ((1, "ValueError: no such data:\n  see the catalogue"), (0, "RuntimeError: Connection closed")):
        run.say("process.end", run._source(rank), clean=False, uncaught=said)
    history = run.exit(1).end("gave-up").history()
    monkeypatch.setattr(History, "read", lambda run_dir: history)
    with pytest.raises(ReferenceFailed) as caught:
        check_control(tmp_path, "gave-up")
    said = str(caught.value)
    assert said.startswith(
        "the uninterrupted run ended with exit code 1, before any fault was injected: rank 1 raised ValueError: no such"
    )
    assert said.endswith("[default1]:[rank1]: ValueError: no such data:\n[default1]:[rank1]:   see the catalogue")
    assert "KeyError: 'lr'" in said and "FAILED" not in said and "Connection" not in said


@pytest.mark.parametrize(
    ("log", "is_said"),
    [
        ("[default0]:epoch 1\n  exitcode  : -9 (pid: 12)\n", True),
        ("traceback : Signal 9 (SIGKILL) received by PID 12\n", True),
        (TRACEBACK + GAVE_UP, False),
    ],
)
def test_a_rank_that_was_killed_may_have_lacked_memory(tmp_path, log, is_said):
    for part in ("events", "logs"):
        (tmp_path / part).mkdir()
    (tmp_path / "logs" / "launch-0.log").write_text(log)
    with pytest.raises(ReferenceFailed) as caught:
        check_control(tmp_path, "gave-up")
    assert ("the kernel sends it when memory runs out" in str(caught.value)) is is_said


def test_the_launcher_s_own_traceback_comes_after_that_of_the_job(tmp_path):
    for part in ("events", "logs"):
        (tmp_path / part).mkdir()
    own = "Traceback (most recent call last):\n  File \"train.py\", line 3\nKeyError: 'lr'\n"
    launcher = own.replace("train", "launch").replace("KeyError: 'lr'", "CalledProcessError: returned non-zero")
    (tmp_path / "logs" / "launch-0.log").write_text(f"epoch 1\n{own}{launcher}")
    with pytest.raises(ReferenceFailed) as caught:
        check_control(tmp_path, "gave-up")
    assert str(caught.value).endswith("KeyError: 'lr'")


@pytest.mark.parametrize(("met", "says"), [("127.0.0.1", "127.0.0.1"), ("10.0.0.1", "no rank joined")])
def test_ranks_of_several_nodes_that_did_not_meet(tmp_path, met, says):
    (tmp_path / "events").mkdir()
    event = {"i": 0, "t": 0.0, "e": "meeting", "at": met, "port": 29500}
    (tmp_path / "events" / "rank-0-1.jsonl").write_text(json.dumps(event) + "\n")
    with pytest.raises(ReferenceFailed, match=says):
        check_control(tmp_path, "finished", nodes=2)
    check_control(tmp_path, "finished", nodes=1)
