"""In narrower numbers, a run resumes as exactly; and an overflow is an overflow on all ranks."""

from types import SimpleNamespace

import pytest
import torch

from tinymodels.numbers.precision import agree_on_overflow
from tinymodels.train import Trainer

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5)  # 20 steps, alone


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_bfloat16_resumes_exactly(train, tmp_path, assert_same_end, parallel):
    flags = (*SMALL, "--bf16", "--evaluate-every", 7, "--parallel", parallel)
    seen = set()

    class Looking(Trainer):
        def build(self):
            state = super().build()
            self.unwrapped.head.register_forward_hook(lambda module, given, came: seen.add(came.dtype))
            return state

    train(tmp_path / "whole", *flags, trainer=Looking)
    assert seen == {torch.bfloat16}
    train(tmp_path / "parts", *flags, "--stop-after", 13)
    train(tmp_path / "parts", *flags)
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_another_precision_is_another_run(train, tmp_path, capsys):
    train(tmp_path, *SMALL, "--stop-after", 6)
    assert train(tmp_path, *SMALL, "--bf16") == 1
    assert "bf16 was False, is True" in capsys.readouterr().err


@pytest.mark.parametrize(("mine", "theirs", "left_out"), [(0, 0, False), (1, 0, True), (0, 1, True)])
def test_an_overflow_is_everybodys(mine, theirs, left_out):
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale((weight * torch.tensor([1.0, float("inf") if mine else 1.0])).sum()).backward()
    scaler.unscale_(optimizer)
    agree_on_overflow(scaler, optimizer, SimpleNamespace(any=lambda found: found or bool(theirs)))
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(weight.detach(), torch.ones(2)) == left_out
    assert scaler.get_scale() == (2.0 if left_out else 4.0)


ONE = """
from tinymodels.train import Trainer
import tinymodels.train, torch

class Overflowing(Trainer):
    def update(self, loss):
        super().update(loss)
        taken = [int(s["step"]) for s in self.state.optimizer.state.values()]
        self.world.require_same("the steps that were taken", taken)

    def micro_step(self, rows, group):
        share = super().micro_step(rows, group)
        if self.state.progress.step == 7 and rank == 1 and self.exchanged:
            grad = self.unwrapped.head.weight.grad
            getattr(grad, "to_local", lambda: grad)().view(-1)[0] = float("inf")
        return share

    def exchange(self, last):
        self.exchanged = last
        return super().exchange(last)

parts["trainer"] = Overflowing
"""


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_nobody_overflows_alone(launch, tmp_path, parallel):
    """After the gradients have been reduced: one replica or one shard alone has it."""
    codes, said = launch(tmp_path, "--amp", "--epochs", 1, "--parallel", parallel, part=ONE)
    assert codes == [0, 0], said


@pytest.mark.slow
def test_if_nobody_asks_the_others_a_replica_overflows_alone(launch, tmp_path):
    """torch itself asks them only for shards."""
    alone = ONE + "\ntinymodels.train.agree_on_overflow = lambda *all: None\n"
    codes, said = launch(tmp_path, "--amp", "--epochs", 1, part=alone)
    assert codes == [1, 1] and "the ranks disagree about the steps that were taken" in said
