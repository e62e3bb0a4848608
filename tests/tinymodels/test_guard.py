"""What is not finite never reaches the weights, nor a checkpoint."""

import pytest

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


def test_without_the_guard_it_would_be_saved(train, tmp_path):
    class Careless(Exploding):
        def guard(self, loss, norm):
            pass

    assert train(tmp_path, *SMALL, "--stop-after", 8, trainer=Careless) == 0


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
