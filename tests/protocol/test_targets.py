import pytest

from chaoskit import targets
from chaoskit.errors import UsageError
from chaoskit.protocol.targets import InjectionTarget

EVERY = [
    (targets.batch(), "batch"),
    (targets.activation("blocks.0.*"), "activation:blocks.0.*"),
    (targets.loss(), "loss"),
    (targets.gradient(), "gradient:*"),
    (targets.gradient("head.weight", reduced=True), "gradient:head.weight:reduced"),
    (targets.parameter("head.*"), "parameter:head.*"),
    (targets.optimizer("head.weight.exp_avg"), "optimizer:head.weight.exp_avg"),
    (targets.scaler(), "scaler"),
    (targets.learning_rate(), "lr"),
    (targets.collective("all_reduce"), "collective:all_reduce:1"),
    (targets.collective("all_gather", nth=3, sent=True), "collective:all_gather:3:sent"),
]


@pytest.mark.parametrize("place, text", EVERY)
def test_a_place_is_the_same_as_text_and_as_json(place, text):
    assert str(place) == text
    assert targets.as_target(text) == InjectionTarget.from_json(place.to_json()) == targets.as_target(place) == place


def test_every_kind_can_be_made():
    assert {place.kind for place, _ in EVERY} == set(targets.KINDS)
    assert {place.kind for place, _ in EVERY if place.held} == {"parameter", "optimizer", "scaler", "lr"}


def test_what_the_text_may_leave_out():
    assert targets.as_target("gradient") == targets.gradient()
    assert targets.as_target("gradient:reduced") == targets.gradient(reduced=True)
    assert targets.as_target("collective:broadcast:sent") == targets.collective("broadcast", sent=True)


@pytest.mark.parametrize(
    "into, says",
    [
        ("gradiant:head", "there is no target 'gradiant'; did you mean 'gradient'?"),
        ("loss:head", "'head' is one word too many"),
        ("gradient:head:2", "'2' is one word too many"),
        ("activation", "say which, as in 'activation:blocks.0.*'"),
        ("collective", "say which"),
        ("collective:all_reduc", "there is no collective 'all_reduc'; did you mean 'all_reduce'?"),
        ("collective:all_reduce:0", "collective: nth must be a whole number from 1"),
        ("collective:all_reduce:x", "collective: nth must be a whole number from 1"),
        ("parameter::", "one word too many"),
        ("parameter:", "pattern must be a shell pattern"),
        (3, "into must be a target such as"),
    ],
)
def test_what_is_no_place_is_refused(into, says):
    with pytest.raises(UsageError, match=says.replace("?", r"\?").replace("*", r"\*")):
        targets.as_target(into)


@pytest.mark.parametrize(
    "data", [{}, {"kind": "loss", "pattern": "*"}, {"kind": "gradient", "reduced": 1}, {"kind": ["loss"]}]
)
def test_json_that_is_no_place_is_refused(data):
    with pytest.raises(UsageError):
        InjectionTarget.from_json(data)


def test_phrases_fit_into_a_sentence():
    assert targets.gradient("head.*", reduced=True).phrase == "the gradient of head.*, reduced"
    assert targets.collective("all_reduce", nth=2).phrase == "what is received from all_reduce 2 of the step"
    assert targets.learning_rate().phrase == "the learning rate" and targets.batch().phrase == "the batch"


def test_near_misses_are_named_and_are_few():
    names = [f"blocks.{n}.weight" for n in range(9)] + ["head.weight"]
    assert targets.near("haed.weight", names).startswith("near: head.weight")
    assert targets.near("x", names).count(",") == 4
    assert targets.near("x", []) == "there is none"
    assert targets.matching("*.[12].weight", names) == ["blocks.1.weight", "blocks.2.weight"]
