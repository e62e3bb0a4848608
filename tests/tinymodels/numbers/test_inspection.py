"""What is looked at before it is published: values that are not finite, and replicas that are not equal."""

import math

import pytest
import torch
from safetensors.torch import load_file

from tinymodels.numbers.inspection import digest, local, minority, shortened
from tinymodels.train import Trainer

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5)  # 20 steps, alone


def broken(place):
    """A trainer in which a value of a place becomes no number, right after step 10."""

    class Broken(Trainer):
        def step(self, group):
            loss = super().step(group)
            if self.state.progress.step == 10:
                self.damage(place)
            return loss

        def damage(self, place):
            state, weight = self.state, self.unwrapped.head.weight
            if place == "rate":
                state.optimizer.param_groups[0]["lr"] = math.nan
            elif place == "scaler":
                state.scaler._scale.fill_(math.inf)
            else:
                average = dict(state.average.named_parameters())["module.head.weight"]
                moment = state.optimizer.state[weight]["exp_avg_sq"]
                tensor = {"model": weight, "optimizer": moment, "average": average}[place].detach()
                local(tensor)[1, 2] = math.inf

    return Broken


@pytest.mark.parametrize(
    ("place", "flags", "name"),
    [
        ("model", (), "model head.weight"),
        ("optimizer", (), "optimizer head.weight.exp_avg_sq"),
        ("average", ("--parallel", "fsdp"), "average head.weight"),
        ("optimizer", ("--parallel", "fsdp", "--save-async"), "optimizer head.weight.exp_avg_sq"),
        ("rate", (), "optimizer rate 0"),
        ("scaler", ("--amp",), "scaler scale"),
    ],
)
def test_what_is_not_finite_is_not_published(train, tmp_path, capsys, assert_same_end, place, flags, name):
    train(tmp_path / "whole", *SMALL, *flags)
    assert train(tmp_path / "parts", *SMALL, *flags, trainer=broken(place)) == 1
    told = f"error: step 10 is not published, as it is not finite: rank 0: {name}\n"
    assert told in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "parts/checkpoints").iterdir()] == ["step-00000005"]
    assert train(tmp_path / "parts", *SMALL, *flags) == 0
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_it_is_found_between_two_saves(train, tmp_path, capsys):
    """What nobody feels: a moment that is infinite moves nothing."""

    class Earlier(broken("optimizer")):
        def step(self, group):
            loss = super().step(group)
            if self.state.progress.step == 7:
                self.damage("optimizer")
            return loss

    assert train(tmp_path, *SMALL, "--check-finite", 1, trainer=Earlier) == 1
    told = "error: after step 7 the state is not finite: rank 0: optimizer head.weight.exp_avg_sq\n"
    assert told in capsys.readouterr().err


def test_it_is_published_if_that_is_allowed(train, tmp_path):
    allowed = ("--allow-nonfinite-saves", "--stop-after", 10)
    assert train(tmp_path, *SMALL, *allowed, trainer=broken("model")) == 0
    assert train(tmp_path, *SMALL, "--on-nonfinite", "off", "--allow-nonfinite-saves") == 0  # resumed from it
    assert not load_file(tmp_path / "model.safetensors")["head.weight"].isfinite().any()


def test_a_best_loss_that_is_infinite_is_none_of_that(train, tmp_path):
    """Early stopping has no best loss yet."""
    assert train(tmp_path, *SMALL, "--evaluate-every", 7) == 0


@pytest.mark.parametrize(
    ("told", "who"),
    [
        ("ab", "ranks 0, 1 differ"),
        ("aab", "rank 2 differs"),
        ("abaca", "ranks 1, 3 differ"),
        ("abc", "ranks 0, 1, 2 differ"),
        ("aabb", "ranks 0, 1, 2, 3 differ"),
    ],
)
def test_the_minority(told, who):
    assert minority(list(told)) == who


def test_a_digest_is_of_the_bits():
    nan, zero = torch.tensor(math.nan), torch.zeros(2, dtype=torch.bfloat16)
    assert digest(nan) == digest(nan.clone()) and digest(zero) != digest(-zero)
    wide = torch.arange(6.0).reshape(2, 3)
    assert digest(wide.T) == digest(wide.T.contiguous())


def test_a_number_keeps_all_its_bits():
    assert local(1e-300).item() == 1e-300


def test_names():
    assert shortened(["a", "b"]) == "a, b" and shortened(list("abcde")) == "a, b, c and 2 more"


STRAY = """
import torch
from tinymodels.train import Trainer

class Stray(Trainer):
    def step(self, group):
        loss = super().step(group)
        if self.state.progress.step == 7 and rank == 1:
            with torch.no_grad():
                self.unwrapped.head.weight.view(torch.int32)[3, 4] ^= 1 << 20
        return loss

parts["trainer"] = Stray
"""


@pytest.mark.slow
@pytest.mark.parametrize(("every", "noticed"), [(4, 8), (100, 10)])
def test_replicas_that_differ_end_the_launch(launch, tmp_path, assert_same_end, every, noticed):
    """One bit of one weight of one replica: found within so many steps, and before a save in any case."""
    flags = ("--epochs", 1, "--check-replicas", every)
    codes, said = launch(tmp_path / "parts", *flags, "--save-every", 5, part=STRAY)
    assert codes == [1, 1]
    assert (
        f"error: after step {noticed} the replicas are not equal: ranks 0, 1 differ in model head.weight" in said
    )
    assert [path.name for path in (tmp_path / "parts/checkpoints").iterdir()] == ["step-00000005"]
    assert launch(tmp_path / "parts", *flags)[0] == [0, 0]
    assert launch(tmp_path / "whole", *flags)[0] == [0, 0]
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_without_the_comparison_nobody_notices(launch, tmp_path):
    codes, said = launch(tmp_path, "--epochs", 1, part=STRAY)
    assert codes == [0, 0] and "finished at step 20" in said
