"""Evaluation looks on and touches nothing; early stopping is state, and not forgotten."""

import pytest
import torch

from tinymodels.checkpoints.state import State
from tinymodels.config import Config
from tinymodels.elasticity.world import World
from tinymodels.evaluation import Evaluation, Stopping
from tinymodels.tokens import Tokens, hold_out

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5, "--log-hex")  # 20 steps, alone


def lines(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


class Written(Evaluation):
    """Whose losses are known beforehand: the best is the second."""

    losses = (3.0, 1.0, 2.0, 2.0, 1.5, 1.5, 1.5)

    def loss(self, model, interrupted):
        self.made = getattr(self, "made", 0) + 1
        return self.losses[min(self.made, len(self.losses)) - 1]


@pytest.mark.parametrize(
    "flags", [(), ("--parallel", "fsdp"), ("--amp", "--noise", 0.2)], ids=["ddp", "fsdp", "amp"]
)
def test_training_does_not_notice(train, tmp_path, capsys, flags):
    train(tmp_path / "without", *SMALL, *flags)
    without = lines(capsys.readouterr().out, "step ")
    train(tmp_path / "with", *SMALL, *flags, "--evaluate-every", 3)
    said = capsys.readouterr().out
    assert lines(said, "step ") == without and len(lines(said, "evaluated ")) == 6
    for file in ("rank-00000.pt", "sharded/__0_0.distcp"):
        one, two = (tmp_path / out / "checkpoints/step-00000020" / file for out in ("without", "with"))
        assert one.read_bytes() == two.read_bytes()


def test_it_gets_better_on_what_was_never_seen(train, tmp_path, capsys):
    train(tmp_path, "--epochs", 1, "--accumulate", 1, "--evaluate-every", 10)
    losses = [float(line.split()[4].rstrip(",")) for line in lines(capsys.readouterr().out, "evaluated ")]
    assert losses[-1] < losses[0] - 0.1


def test_stops_when_it_gets_no_better(train, tmp_path, capsys):
    flags = (*SMALL, "--evaluate-every", 2, "--patience", 3)
    assert train(tmp_path, *flags, evaluation=Written) == 0
    said = capsys.readouterr().out
    assert "stopping early: no better loss in 3 evaluations" in said
    assert "finished at step 10" in said and (tmp_path / "model.safetensors").exists()
    assert train(tmp_path, *flags, evaluation=Written) == 0  # and does not start again
    assert "step 11" not in capsys.readouterr().out


def test_a_resumed_run_counts_on(train, tmp_path, capsys):
    class Later(Written):
        losses = Written.losses[2:]

    flags = (*SMALL, "--evaluate-every", 2, "--patience", 3)
    train(tmp_path, *flags, "--stop-after", 5, evaluation=Written)
    train(tmp_path, *flags, evaluation=Later)
    assert "finished at step 10" in capsys.readouterr().out


def test_a_state_that_forgets_stops_later(train, tmp_path, capsys):
    class Forgetful(State):
        def restore_stopping(self, saved):
            pass

    class Later(Written):
        losses = Written.losses[2:]

    flags = (*SMALL, "--evaluate-every", 2, "--patience", 3)
    train(tmp_path, *flags, "--stop-after", 5, evaluation=Written)
    train(tmp_path, *flags, evaluation=Later, state=Forgetful)
    assert "finished at step 16" in capsys.readouterr().out


def test_counts():
    stopping = Stopping()
    for step, loss in enumerate((2.0, 1.0, 1.0, float("nan"))):
        stopping.note(step, loss)
    assert (stopping.best, stopping.bad, stopping.step) == (1.0, 2, 3)
    assert stopping.exhausted(2) and not stopping.exhausted(3) and not stopping.exhausted(0)


def test_ranks_that_count_differently_are_told(monkeypatch):
    monkeypatch.setattr(World, "gather", lambda self, mine: [mine, Stopping(bad=2)])
    with pytest.raises(RuntimeError, match="the ranks disagree about early stopping"):
        World(0, 2, torch.device("cpu")).require_same("early stopping", Stopping())


def test_the_held_out_language_is_the_same_in_other_words():
    config = Config(out="x", evaluate_every=1)
    tokens = Tokens.language(config.samples, config.context, config.seed)
    trained, held_out = hold_out(tokens, config)
    assert trained is tokens and len(held_out) == 64
    assert not {tuple(row) for row in held_out.rows.tolist()} & {tuple(row) for row in tokens.rows.tolist()}


@pytest.mark.parametrize(("rows", "held"), [(2, 1), (30, 3), (5000, 64)])
def test_the_end_of_a_text_is_held_out(tmp_path, rows, held):
    tokens = Tokens(torch.arange(rows).unsqueeze(1), 256)
    trained, held_out = hold_out(tokens, Config(out="x", text=tmp_path, evaluate_every=1))
    assert len(held_out) == held and torch.equal(torch.cat([trained.rows, held_out.rows]), tokens.rows)
    whole, none = hold_out(tokens, Config(out="x", text=tmp_path))
    assert len(whole) == rows and len(none) == 0


def test_each_held_out_sample_counts_once_over_the_ranks():
    tokens = Tokens(torch.arange(13).unsqueeze(1).repeat(1, 2), 16)
    config, seen = Config(out="x", batch=2), []

    class Total(World):
        def total(self, value):
            return float(value)

    class Count(torch.nn.Module):
        def forward(self, rows):
            seen.extend(rows[:, 0].tolist())
            return rows[:, 0].double().sum()

    means = [
        Evaluation(tokens, config, Total(r, 3, torch.device("cpu"))).loss(Count(), lambda: False) for r in range(3)
    ]
    assert sorted(seen) == list(range(13)) and sum(means) == pytest.approx(6.0)
