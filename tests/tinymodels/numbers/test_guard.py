"""A bad number never reaches the weights, nor a checkpoint; all ranks decide that, and as one."""

import json
import math
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from tinymodels.config import parse
from tinymodels.numbers.guard import ENOUGH, KEPT, Guard, Memory
from tinymodels.numbers.rollback import Rollback
from tinymodels.train import Trainer

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5)  # 20 steps, alone


class Poisoned(Trainer):
    """Something is not finite in step 8."""

    def micro_step(self, rows, group):
        share = super().micro_step(rows, group)
        return share * float("nan") if self.state.progress.step == 7 else share


class Exploding(Trainer):
    """A loss like any other, and a gradient that is none."""

    def micro_step(self, rows, group):
        share = super().micro_step(rows, group)
        if self.state.progress.step == 7:
            next(self.model.parameters()).grad[0, 0] = float("inf")
        return share


@pytest.mark.parametrize(
    ("trainer", "told"),
    [(Poisoned, "the loss of step 8 is nan"), (Exploding, "the gradient norm of step 8 is inf")],
)
def test_raises_before_the_step_and_resumes_from_before_it(
    train, tmp_path, capsys, assert_same_end, trainer, told
):
    train(tmp_path / "whole", *SMALL)
    assert train(tmp_path / "parts", *SMALL, trainer=trainer) == 1
    assert capsys.readouterr().err == f"tinymodels.train: error: {told}\n"
    assert [path.name for path in (tmp_path / "parts/checkpoints").iterdir()] == ["step-00000005"]
    assert train(tmp_path / "parts", *SMALL) == 0
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_with_a_scaler_a_gradient_may_overflow(train, tmp_path):
    assert train(tmp_path, *SMALL, "--amp", trainer=Exploding) == 0


def test_without_the_guard_it_reaches_the_weights_and_a_checkpoint(train, tmp_path):
    off = ("--on-nonfinite", "off", "--allow-nonfinite-saves")
    assert train(tmp_path, *SMALL, *off, trainer=Exploding) == 0
    assert not all(weight.isfinite().all() for weight in load_file(tmp_path / "model.safetensors").values())


class Watched(Exploding):
    """Remembers the weights around step 8."""

    def step(self, group):
        before, forwards = [weight.clone() for weight in self.model.parameters()], int(self.unwrapped.forwards)
        loss = super().step(group)
        same = all(torch.equal(*pair) for pair in zip(before, self.model.parameters(), strict=True))
        assert same == (self.state.progress.step == 8)
        assert self.state.average.n_averaged == self.state.progress.step - (self.state.progress.step >= 8)
        assert self.unwrapped.forwards == forwards + len(group.batches)  # it counts what was left out, too
        return loss


def test_a_bad_step_is_left_out(train, tmp_path, capsys):
    assert train(tmp_path, *SMALL, "--on-nonfinite", "skip", trainer=Watched) == 0
    said = capsys.readouterr().out
    assert "left out: the gradient norm of step 8 is inf\n" in said
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 21))  # time, data and rates went on
    assert all(weight.isfinite().all() for weight in load_file(tmp_path / "model.safetensors").values())


class Broken(Trainer):
    """The scale has become no number after step 7."""

    def step(self, group):
        loss = super().step(group)
        if self.state.progress.step == 7:
            self.state.scaler._scale.fill_(math.nan)
        return loss


def test_a_scale_that_is_no_number(train, tmp_path, capsys, assert_same_end):
    """Every gradient overflows under it, which looks like a matter of course, for ever."""
    train(tmp_path / "whole", *SMALL, "--amp")
    assert train(tmp_path / "parts", *SMALL, "--amp", trainer=Broken) == 1
    assert "the gradient scale of step 8 is nan" in capsys.readouterr().err
    assert train(tmp_path / "parts", *SMALL, "--amp") == 0
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_without_the_guard_a_bad_scale_ends_the_training_in_silence(train, tmp_path):
    class Frozen(Broken):
        def step(self, group):
            before = next(self.model.parameters()).clone()
            loss = super().step(group)
            if self.state.progress.step > 8:
                assert torch.equal(before, next(self.model.parameters()))
            return loss

    off = ("--amp", "--on-nonfinite", "off", "--allow-nonfinite-saves")
    assert train(tmp_path, *SMALL, *off, trainer=Frozen) == 0


class Spiking(Trainer):
    """A loss that is three times what it was, in step 18."""

    def micro_step(self, rows, group):
        return super().micro_step(rows, group) * (3 if self.state.progress.step == 17 else 1)


def test_a_spike_is_a_bad_step(train, tmp_path, capsys, assert_same_end):
    train(tmp_path / "whole", *SMALL, "--spike", 2)
    assert train(tmp_path / "parts", *SMALL, "--spike", 2, "--stop-after", 12) == 0
    # Resumed from step 10, it still knows the losses from before: alone it has seen too few to judge.
    assert train(tmp_path / "parts", *SMALL, "--spike", 2, trainer=Spiking) == 1
    assert "the loss of step 18 is " in (told := capsys.readouterr().err) and "times the usual one" in told
    assert train(tmp_path / "parts", *SMALL, "--spike", 2) == 0
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_no_spike_is_bad_unless_asked_for(train, tmp_path, capsys):
    assert train(tmp_path, *SMALL, trainer=Spiking) == 0
    assert train(tmp_path / "ten", *SMALL, "--spike", 10, trainer=Spiking) == 0
    assert "left out" not in capsys.readouterr().out


def test_what_is_usual():
    memory = Memory()
    for loss in [9.0] * (ENOUGH - 1):
        memory.note(loss)
    assert memory.usual() == math.inf
    memory.note(9.0)
    assert memory.usual() == 9.0
    for _ in range(KEPT):
        memory.note(1.0)
    assert memory.usual() == 1.0 and len(memory.losses) == KEPT


def test_a_memory_outlives_a_save():
    memory = Memory([0.1, 0.2], [Rollback(5, ((0, 112, 16),), 0.5)])
    other = Memory()
    other.load_state_dict(json.loads(json.dumps(memory.state_dict())))
    assert other == memory and asdict(other) == asdict(memory)


class Three:
    """A world of three, in which the others have found what they are told to."""

    size = 3

    def __init__(self, *others):
        self.others = others

    def any(self, mine):
        return mine or any(other is not None for other in self.others)

    def gather(self, mine):
        return [mine, *self.others]


@pytest.mark.parametrize(
    ("loss", "others", "judged"),
    [
        (1.0, (None, None), None),
        (math.nan, ("bad", "bad"), "the loss of step 8 is nan"),
        (1.0, (None, "the loss of step 8 is inf"), "the loss of step 8 is inf on rank 2"),
        (math.inf, (None, "the gradient norm of step 8 is inf"), "the loss of step 8 is inf on rank 0, 2"),
    ],
)
def test_who_finds_something_speaks_for_all(tmp_path, loss, others, judged):
    scaler = SimpleNamespace(get_scale=lambda: 1.0)
    guard = Guard(parse(["--out", str(tmp_path)]), Three(*others))
    assert guard(8, loss, torch.tensor(1.0), scaler, Memory()) == judged


@pytest.mark.slow
def test_all_ranks_raise_if_one_has_to(launch, tmp_path):
    poison = """
    from tinymodels.train import Trainer

    class Poisoned(Trainer):
        def micro_step(self, rows, group):
            share = super().micro_step(rows, group)
            return share * float("nan") if self.state.progress.step == 7 and rank == 1 else share

    parts["trainer"] = Poisoned
    """
    codes, said = launch(tmp_path, part=poison)
    assert codes == [1, 1] and "error: the loss of step 8 is nan" in said


@pytest.mark.slow
def test_nobody_leaves_a_step_out_alone(launch, tmp_path):
    """The gradients of one replica go bad after they have been reduced: only that one can see it."""
    poison = """
    import torch
    from tinymodels.train import Trainer

    class Poisoned(Trainer):
        def micro_step(self, rows, group):
            share = super().micro_step(rows, group)
            last = len(self.model.module.head.weight.grad) and rows is group.batches[-1]
            if self.state.progress.step == 7 and rank == 1 and last:
                self.model.module.head.weight.grad[0, 0] = float("nan")
            return share

    parts["trainer"] = Poisoned
    """
    flags = ("--epochs", 1, "--check-replicas", 1)
    codes, said = launch(tmp_path / "plain", *flags, "--on-nonfinite", "skip", part=poison)
    assert codes == [0, 0] and "left out: the gradient norm of step 8 is nan on rank 1" in said
    codes, said = launch(tmp_path / "amp", *flags, "--amp", part=poison)  # the scaler's own business
    assert codes == [0, 0] and "finished at step 20" in said
