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


@pytest.mark.parametrize(("met", "says"), [("127.0.0.1", "127.0.0.1"), ("10.0.0.1", "no rank joined")])
def test_ranks_of_several_nodes_that_did_not_meet(tmp_path, met, says):
    (tmp_path / "events").mkdir()
    event = {"i": 0, "t": 0.0, "e": "meeting", "at": met, "port": 29500}
    (tmp_path / "events" / "rank-0-1.jsonl").write_text(json.dumps(event) + "\n")
    with pytest.raises(ReferenceFailed, match=says):
        check_control(tmp_path, "finished", nodes=2)
    check_control(tmp_path, "finished", nodes=1)
