"""Alignment: sets are intersected before anything is said."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.analysis.alignment.alignment import show_positions
from chaoskit.analysis.alignment.index import Index
from chaoskit.analysis.alignment.timeline import Timeline
from chaoskit.analysis.record.steps import Step, Steps
from tests.history_writer import NAMES, Writer, killed, truth


def at(position, n=1, rank=0, names=NAMES, **other):
    components = {name: truth(name, rank, position) for name in names} | other
    return Step(n, 0.0, (), {name: value for name, value in components.items() if value is not None})


def add(index, rank, position, components):
    """Let the index learn one step."""
    steps = Steps()
    steps.append(Step(1, 0.0, (), components))
    index.learn(rank, position, steps)


def index(positions=60, names=NAMES, **constant):
    made = Index()
    for rank in (0, 1):
        for position in range(positions):
            components = {name: truth(name, rank, position) for name in names} | constant
            add(made, rank, position, components)
    return made


def test_an_exact_resume():
    found = index().align(at(40), 0)
    assert (found.position, found.exact, found.trusted(40)) == (40, True, True)
    assert found.positions["model"] == {40}
    assert found.row()["model"] == "40"


def test_absent_is_not_the_same_as_nowhere():
    found = index().align(at(40, ema=None, scaler="odd"), 0)
    assert found.positions["ema"] is None
    assert found.positions["scaler"] == frozenset()
    assert (found.absent(40), found.off(40)) == (("ema",), ("scaler",))
    assert "ema" not in found.row()
    assert found.row()["scaler"] == "none"


def test_what_the_reference_does_not_have_says_nothing():
    found = index(names=[n for n in NAMES if n != "ema"]).align(at(40), 0)
    assert "ema" not in found.positions
    assert found.exact


def test_a_component_that_is_known_elsewhere_only_is_not_off():
    made = index(names=[n for n in NAMES if n != "ema"])
    add(made, 0, 59, {"ema": "late"})
    assert made.align(at(40), 0).exact


def test_a_frozen_warm_up_is_told_by_the_others():
    """With a learning rate of 0 the model is the same at several positions."""
    made = Index()
    for position in range(10):
        model = "start" if position < 4 else f"m{position}"
        add(made, 0, position, {"model": model, "lr": f"l{position}", "optimizer": f"o{position}"})
    found = made.align(Step(1, 0.0, (), {"model": "start", "lr": "l2", "optimizer": "o2"}), 0)
    assert (found.position, found.exact) == (2, True)
    found = made.align(Step(1, 0.0, (), {"model": "start", "lr": "l2", "optimizer": "o0"}), 0, likely=[2])
    assert (found.position, found.off(2)) == (2, ("optimizer",))


def test_nothing_is_said_where_nothing_tells_positions_apart():
    made = Index()
    for position in range(10):
        add(made, 0, position, {"model": "same", "lr": "same"})
    step = Step(1, 0.0, (), {"model": "same", "lr": "same"})
    assert made.align(step, 0).position == 0
    assert made.align(step, 0, likely=[4]).candidates == (0, 4)
    assert made.align(step, 0, likely=[4]).position is None
    assert made.align(step, 0).row()["model"] == "any"
    assert made.align(step, 0).row(4)["model"] == "4 (any)"


def test_one_component_that_was_loaded_outweighs_all_that_were_not():
    fresh = {name: truth(name, 0, 0) for name in NAMES}
    for name in ("model", "optimizer", "ema"):
        found = index().align(at(0, **{**fresh, name: truth(name, 0, 40)}), 0)
        assert found.position == 40
        assert found.trusted(40) == (name == "model")
    for name in ("batch", "lr", "rng.torch"):
        loaded = at(0, **{**fresh, name: truth(name, 0, 40)})
        assert index().align(loaded, 0).position == 0
        assert index().align(loaded, 0, likely=[20, 40]).position == 40


def test_a_model_that_matches_nowhere_is_not_trusted():
    found = index().align(at(40, model="random"), 0)
    assert (found.position, found.trusted(40), found.exact) == (40, False, False)


def test_nothing_matches():
    found = index().align(at(40, **dict.fromkeys(NAMES, "odd")), 0)
    assert (found.position, found.candidates) == (None, ())
    assert index().align(at(40), 7).position is None


def test_past_a_position_the_reference_is_a_measure_only_where_it_is_matched():
    made, steps = Index(), Steps()
    for position in range(10):
        steps.append(Step(position + 1, 0.0, (), {"model": f"m{position}", "buffers": f"b{position}"}))
    made.learn(0, 0, steps, last=4)
    found = made.align(Step(1, 0.0, (), {"model": "m7", "buffers": "other"}), 0)
    assert (found.positions["model"], found.off(7), found.off(4)) == ({7}, (), ("model", "buffers"))
    assert found.known["model"] == frozenset(range(5))
    assert found.at(7) == {"model"}


def test_a_loose_component_may_be_anything_but_behind():
    made = Index(loose=["rng.torch"])
    for position in range(10):
        add(made, 0, position, {"model": f"m{position}", "rng.torch": f"r{position}"})

    def stream(text):
        return made.align(Step(1, 0.0, (), {"model": "m5", "rng.torch": text}), 0)

    for text, off, cell in (
        ("r5", (), "5"), ("r6", (), None), ("r4", (), None), ("odd", (), None), ("r0", ("rng.torch",), "0"),
    ):  # fmt: skip
        found = stream(text)
        assert (found.position, found.off(5), found.row(5).get("rng")) == (5, off, cell), text
        assert "rng" not in found.row() and found.at(5) == ({"model", "rng"} if cell == "5" else {"model"})
    assert made.align(Step(1, 0.0, (), {"model": "m5"}), 0).absent(5) == ()


def test_streams_share_a_column():
    found = index().align(at(40, **{"rng.python": truth("rng.python", 0, 3)}), 0)
    assert found.row()["rng"] == "40"
    made = index()
    add(made, 0, 7, {"rng.numpy": "seven"})
    assert made.align(at(40, **{"rng.numpy": "seven"}), 0).row()["rng"] == "mixed"


def test_the_base_of_a_life_is_told_by_any_of_its_steps():
    assert index().base_of(at(40), 0) == 40
    assert index().base_of(at(43, n=4), 0) == 40
    assert index().base_of(at(43, **dict.fromkeys(NAMES, "odd")), 0) is None


@pytest.mark.parametrize(
    ("positions", "shown"),
    [([], "none"), ([4], "4"), ([4, 6], "4, 6"), ([4, 5, 6], "4…6"), ([1, 5, 7, 9], "1, 5, … 9")],
)
def test_positions_are_shown_short(positions, shown):
    assert show_positions(positions) == shown


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=2, max_size=20),
    st.data(),
)
def test_every_candidate_is_a_true_match_of_what_it_claims(states, data):
    """Whatever collides: a step of the reference is exact, and its candidates are what cannot be told apart."""
    made = Index()
    for position, (model, lr, batch) in enumerate(states):
        add(made, 0, position, {"model": str(model), "lr": str(lr), "batch": str(batch)})
    position = data.draw(st.integers(0, len(states) - 1))
    model, lr, batch = states[position]
    found = made.align(Step(1, 0.0, (), {"model": str(model), "lr": str(lr), "batch": str(batch)}), 0)
    assert position in found.positions["model"]
    assert not found.off(position)
    assert all(states[candidate] == states[position] for candidate in found.candidates)
    if found.position is not None:
        assert states[found.position] == states[position]


def test_the_timeline_of_a_run():
    timeline = killed().case().timeline
    assert (timeline.base(0), timeline.base(1)) == (0, 20)
    assert (timeline.highest(), timeline.executed, timeline.rolled_back) == (60, 130, 10)
    assert (timeline.kept(1, 23).incarnation, timeline.kept(1, 20).incarnation) == (1, 0)
    assert timeline.kept(1, 61) is None
    assert (timeline.missing(0, 60), timeline.missing(0, 62), timeline.missing(5, 2)) == ([], [61, 62], [1, 2])
    kept = {(one.rank, one.true(place)) for one, start, end in timeline.effective for place in range(start, end)}
    assert kept == {(rank, step) for rank in (0, 1) for step in range(1, 61)}


def test_a_life_without_steps_has_no_base():
    run = Writer().launch().live(until=25).fault().died().launch().live(base=20, until=20).died()
    case = run.launch().live(base=20, ends=True).exit(0).end().case()
    assert (case.timeline.base(1), case.timeline.base(2)) == (None, 20)


def test_ranks_that_stand_apart_are_told():
    start = killed(off={(1, name): 0 for name in NAMES}).case().timeline.starts[1]
    assert (start.base, start.apart, start.trusted) == (20, (1,), False)


def test_later_steps_tell_apart_what_the_first_does_not():
    def tell(name, rank, position):
        """Positions 20 and 40 are alike in everything; 21 and 41 are not."""
        return truth(name, rank, 20 if position == 40 else position)

    for base in (20, 40):
        run = Writer(tell=tell).launch().live(until=45).fault().died()
        assert run.launch().live(base=base, ends=True).exit(0).end().case().timeline.base(1) == base


def test_without_a_reference_a_run_is_aligned_with_its_own_past():
    timeline = Timeline(killed().history(), None)
    assert (timeline.base(0), timeline.base(1)) == (0, 20)
    assert not timeline.bitwise
