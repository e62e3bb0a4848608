"""A control that does not come to its end is no control, and the error says why."""

import json

import pytest

from chaoskit.engine.control_failure import check_control
from chaoskit.errors import ReferenceFailed


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


@pytest.mark.parametrize(("met", "says"), [("127.0.0.1", "127.0.0.1"), ("10.0.0.1", "no rank joined")])
def test_ranks_of_several_nodes_that_did_not_meet(tmp_path, met, says):
    (tmp_path / "events").mkdir()
    event = {"i": 0, "t": 0.0, "e": "meeting", "at": met, "port": 29500}
    (tmp_path / "events" / "rank-0-1.jsonl").write_text(json.dumps(event) + "\n")
    with pytest.raises(ReferenceFailed, match=says):
        check_control(tmp_path, "finished", nodes=2)
    check_control(tmp_path, "finished", nodes=1)
