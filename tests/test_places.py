import pytest

from chaoskit import places
from chaoskit.errors import UsageError
from chaoskit.places import Place

EVERY = [
    (places.batch(), "batch"),
    (places.activation("blocks.0.*"), "activation:blocks.0.*"),
    (places.loss(), "loss"),
    (places.gradient(), "gradient:*"),
    (places.gradient("head.weight", reduced=True), "gradient:head.weight:reduced"),
    (places.parameter("head.*"), "parameter:head.*"),
    (places.optimizer("head.weight.exp_avg"), "optimizer:head.weight.exp_avg"),
    (places.scaler(), "scaler"),
    (places.learning_rate(), "lr"),
    (places.collective("all_reduce"), "collective:all_reduce:1"),
    (places.collective("all_gather", nth=3, sent=True), "collective:all_gather:3:sent"),
]


@pytest.mark.parametrize("place, text", EVERY)
def test_a_place_is_the_same_as_text_and_as_json(place, text):
    assert str(place) == text
    assert places.place(text) == Place.from_json(place.to_json()) == places.place(place) == place


def test_every_kind_can_be_made():
    assert {place.kind for place, _ in EVERY} == set(places.KINDS)
    assert {place.kind for place, _ in EVERY if place.held} == {"parameter", "optimizer", "scaler", "lr"}


def test_what_the_text_may_leave_out():
    assert places.place("gradient") == places.gradient()
    assert places.place("gradient:reduced") == places.gradient(reduced=True)
    assert places.place("collective:broadcast:sent") == places.collective("broadcast", sent=True)


@pytest.mark.parametrize(
    "into, says",
    [
        ("gradiant:head", "there is no place 'gradiant'; did you mean 'gradient'?"),
        ("loss:head", "there is no place for 'head'"),
        ("gradient:head:2", "there is no place for '2'"),
        ("activation", "say which, as in 'activation:blocks.0.*'"),
        ("collective", "say which"),
        ("collective:all_reduc", "there is no collective 'all_reduc'; did you mean 'all_reduce'?"),
        ("collective:all_reduce:0", "nth counts from 1"),
        ("collective:all_reduce:x", "nth counts from 1"),
        ("parameter::", "there is no place for"),
        ("parameter:", "pattern must be a shell pattern"),
        (3, "into: a place such as"),
    ],
)
def test_what_is_no_place_is_refused(into, says):
    with pytest.raises(UsageError, match=says.replace("?", r"\?").replace("*", r"\*")):
        places.place(into)


@pytest.mark.parametrize(
    "data", [{}, {"kind": "loss", "pattern": "*"}, {"kind": "gradient", "reduced": 1}, {"kind": ["loss"]}]
)
def test_json_that_is_no_place_is_refused(data):
    with pytest.raises(UsageError):
        Place.from_json(data)


def test_phrases_fit_into_a_sentence():
    assert places.gradient("head.*", reduced=True).phrase == "the gradient of head.*, reduced"
    assert places.collective("all_reduce", nth=2).phrase == "what is received from all_reduce 2 of the step"
    assert places.learning_rate().phrase == "the learning rate" and places.batch().phrase == "the batch"


def test_near_misses_are_named_and_are_few():
    names = [f"blocks.{n}.weight" for n in range(9)] + ["head.weight"]
    assert places.near("haed.weight", names).startswith("near: head.weight")
    assert places.near("x", names).count(",") == 4
    assert places.near("x", []) == "there is none"
    assert places.matching("*.[12].weight", names) == ["blocks.1.weight", "blocks.2.weight"]
