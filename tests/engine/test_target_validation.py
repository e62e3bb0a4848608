"""What a fault aims at and cannot be there is refused before anything is launched; what may be there is not."""

from __future__ import annotations

import pytest

from chaoskit import faults
from chaoskit.engine import target_validation
from chaoskit.errors import UsageError
from chaoskit.faults import triggers
from tests.history_writer import Writer

NAMES = ("head.weight", "head.bias", "blocks.0.attn.weight", "blocks.1.attn.weight")


@pytest.fixture(scope="module")
def reference():
    """One whose ranks have told the names of their tensors."""
    made = Writer(names=("model", "optimizer", "lr", "batch")).case().reference
    for life in made.controls[0].incarnations[0].ranks.values():
        life.tensors[1] = {"model": dict.fromkeys(NAMES, "0")}
    return made


@pytest.mark.parametrize(
    ("into", "said"),
    [
        ("parameter:hed.weight", "no parameter with that name.*head.weight"),
        ("gradient:blocks.2.*", "no parameter with that name.*blocks.0.attn.weight"),
        ("optimizer:hed.weight.exp_avg", "keeps no tensor with that name.*head.weight"),
        ("activation:blocks.0.attn.weight", "a parameter, not a module; its module is blocks.0.attn"),
        ("scaler", "no gradient scaler"),
    ],
)
def test_what_cannot_be_there_is_refused_before_anything_is_launched(reference, into, said):
    with pytest.raises(UsageError, match=said):
        target_validation.check(faults.nan(rank=1, into=into).at_step(25), reference)


@pytest.mark.parametrize(
    "into",
    [
        "parameter:head.*", "gradient:*:reduced", "gradient:blocks.[01].attn.weight", "optimizer:*.exp_avg",
        "optimizer:head.weight.exp_avg", "optimizer:head.*", "activation:blocks.*", "activation:drop", "loss", "batch",
        "lr", "collective:broadcast:9",
    ],
)  # fmt: skip
def test_what_may_be_there_is_left_to_the_rank(reference, into):
    target_validation.check(faults.nan(rank=1, into=into).at_step(25), reference)


def test_names_that_nobody_told_are_left_to_the_rank():
    target_validation.check(faults.nan(rank=1, into="parameter:hed").at_step(25), Writer().case().reference)


def test_a_rank_or_a_step_that_cannot_be(reference):
    with pytest.raises(UsageError, match="nan: there is no rank 2 in a job of 2"):
        target_validation.check(faults.nan(rank=2).at_step(25), reference)
    stored = faults.Fault(faults.stale(rank=0).action, triggers.AtStep(1))
    with pytest.raises(UsageError, match="at_step must be 2"):
        target_validation.check(stored, reference)
