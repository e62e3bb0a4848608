"""What is kept of a launch that ended for a bad number: to be looked at, never to be resumed from."""

import math

import pytest
import torch

from tests.tinymodels.numbers.test_rollback import bad_at
from tinymodels.checkpoints.durable import read_tensors
from tinymodels.train import Trainer

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5, "--postmortem")  # 20 steps, alone


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_what_is_kept(train, tmp_path, capsys, assert_same_end, parallel):
    flags = (*SMALL, "--parallel", parallel)
    train(tmp_path / "whole", *flags)
    assert not (tmp_path / "whole/postmortem").exists()
    assert train(tmp_path / "parts", *flags, trainer=bad_at((0, 112))) == 1
    dump = tmp_path / "parts/postmortem/step-00000008/rank-0.pt"
    assert f"for the post-mortem: {dump.parent}" in capsys.readouterr().out
    kept = read_tensors(dump)  # weights only
    assert kept["why"] == "the loss of step 8 is nan" and math.isnan(kept["loss"]) and kept["rank"] == 0
    assert math.isfinite(kept["norm"])  # it was the loss alone
    assert [len(rows) for rows in kept["batch"]] == [8, 8]
    assert kept["state"]["model head.weight"].shape == kept["state"]["optimizer head.weight.exp_avg"].shape
    assert kept["state"]["average n_averaged"] == 7
    assert train(tmp_path / "parts", *flags) == 0
    assert "step-00000005 (epoch 0" in capsys.readouterr().out  # not from what was kept
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_nothing_is_kept_unless_asked_for(train, tmp_path):
    assert train(tmp_path, *SMALL[:-1], trainer=bad_at((0, 112))) == 1
    assert not (tmp_path / "postmortem").exists()


def test_the_newest_two_are_kept(train, tmp_path):
    for position in (112, 96, 128, 96):
        assert train(tmp_path, *SMALL, trainer=bad_at((0, position))) == 1
    assert sorted(path.name for path in (tmp_path / "postmortem").iterdir()) == ["step-00000007", "step-00000009"]


def test_a_refused_checkpoint_is_kept_too(train, tmp_path):
    class Broken(Trainer):
        def step(self, group):
            loss = super().step(group)
            with torch.no_grad():
                self.unwrapped.head.weight[0, 0] = math.nan if self.state.progress.step == 5 else 0
            return loss

    assert train(tmp_path, *SMALL, trainer=Broken) == 1
    kept = read_tensors(tmp_path / "postmortem/step-00000005/rank-0.pt")
    assert "is not published" in kept["why"] and kept["state"]["model head.weight"].isnan().sum() == 1


def test_a_disk_that_fails_changes_nothing(train, tmp_path, capsys):
    (tmp_path / "postmortem").write_text("in the way")
    assert train(tmp_path, *SMALL, trainer=bad_at((0, 112))) == 1
    said = capsys.readouterr()
    assert "nothing is kept for the post-mortem: rank 0: " in said.out
    assert said.err == "tinymodels.train: error: the loss of step 8 is nan\n"


@pytest.mark.slow
def test_each_rank_keeps_its_own(launch, tmp_path):
    poison = """
    from tinymodels.train import Trainer

    class Poisoned(Trainer):
        def micro_step(self, rows, group):
            share = super().micro_step(rows, group)
            return share * float("nan") if self.state.progress.step == 7 and rank == 1 else share

    parts["trainer"] = Poisoned
    """
    codes, _ = launch(tmp_path, "--postmortem", "--parallel", "fsdp", part=poison)
    assert codes == [1, 1]
    one, two = (read_tensors(tmp_path / f"postmortem/step-00000008/rank-{rank}.pt") for rank in range(2))
    assert (one["rank"], two["rank"]) == (0, 1) and not torch.equal(one["batch"][0], two["batch"][0])
