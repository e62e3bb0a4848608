"""Each step has one line, however often the run was interrupted."""

import json

import pytest
import torch

from tinymodels.elasticity.world import World
from tinymodels.metrics import Metrics

ALONE = World(0, 1, torch.device("cpu"))
SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5, "--log-hex")  # 20 steps, alone


@pytest.fixture
def metrics(tmp_path):
    made = Metrics(tmp_path / "out" / "metrics.jsonl", ALONE)
    made.rewind(0)
    for step in (1, 2, 3):
        made.log(step, step / 3, 0.1)
    made.sync()
    return made


def steps(metrics):
    return [json.loads(line)["step"] for line in metrics.path.read_text().splitlines()]


def test_exact(metrics):
    assert float.fromhex(json.loads(metrics.path.read_text().splitlines()[0])["loss"]) == 1 / 3


def test_what_was_undone_is_cut_off(metrics):
    metrics.rewind(2)
    assert steps(metrics) == [1, 2]
    metrics.rewind(0)
    assert steps(metrics) == []


def test_what_was_undone_before_it_could_be_written_is_cut_off_too(metrics):
    metrics.pending = [json.dumps({"step": step}) + "\n" for step in (4, 5, 6)]
    metrics.rewind(4)
    metrics.sync()
    assert steps(metrics) == [1, 2, 3, 4]


@pytest.mark.parametrize("kept", [1, 9, -1])
def test_a_line_that_a_crash_has_cut(metrics, kept):
    whole = metrics.path.read_text()
    metrics.path.write_text(whole + whole.splitlines(keepends=True)[-1][:kept])
    metrics.rewind(3)
    assert metrics.path.read_text() == whole


def test_only_rank_0_writes(tmp_path):
    other = Metrics(tmp_path / "metrics.jsonl", World(1, 2, torch.device("cpu")))
    other.rewind(0)
    other.log(1, 1.0, 0.1)
    assert not other.path.exists()


def test_a_resumed_run_has_each_step_once(train, tmp_path, capsys):
    train(tmp_path, *SMALL, "--stop-after", 8)
    train(tmp_path, *SMALL)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 21))
    said = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    printed = {int(words[1]): (words[7], words[9]) for words in said}
    assert {line["step"]: (line["loss"], f"{line['lr']:.3e}") for line in lines} == printed
