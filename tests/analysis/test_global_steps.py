"""What several ranks do together, whatever their number."""

from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.analysis.alignment.global_steps import GlobalSteps
from chaoskit.analysis.record.steps import Step, Steps
from tests.history_writer import Writer, share


def steps(*records):
    made = Steps()
    for n, (components, more) in enumerate(records, start=1):
        made.append(Step(n, float(n), **{"losses": (), "components": components, **more}))
    return made


def dealt(samples, world):
    return {
        rank: steps(({"batch": f"batch of {rank}/{world}"}, {"samples": tuple(samples[rank::world])}))
        for rank in range(world)
    }


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcdef"), min_size=8, max_size=20), st.permutations(range(8)), st.integers(1, 4))
def test_the_batch_is_the_samples_of_all_ranks_in_any_order(samples, order, world):
    other = [samples[at] for at in order] + samples[8:]
    one, two = GlobalSteps.of(dealt(samples, 2), 2), GlobalSteps.of(dealt(other, world), world)
    assert one.ranks[0].columns["batch"] == two.ranks[0].columns["batch"] == one.ranks[1].columns["batch"]
    assert one.samples == two.samples == {1: len(samples)}
    fewer = GlobalSteps.of(dealt(samples[:-1], world), world)
    assert fewer.ranks[0].columns["batch"] != one.ranks[0].columns["batch"]


def test_a_step_that_was_not_seen_on_every_rank_has_no_whole():
    ranks = {
        0: steps(
            ({"model": "m0"}, {"samples": ("a",), "losses": ("0x1p+0",)}),
            ({"model": "m1"}, {"samples": ("b",), "losses": ("0x1p+0",)}),
        ),
        1: steps(({"model": "m0"}, {"samples": ("c",), "losses": ("0x1p+1",)})),
    }
    whole = GlobalSteps.of(ranks, 2)
    assert (whole.samples, whole.losses) == ({1: 2}, {1: 1.5})
    assert whole.ranks[0].columns["batch"][1] is None and whole.ranks[0].columns["model"] == ["m0", "m1"]
    assert GlobalSteps.of({0: ranks[0]}, 2).losses == {}


def test_the_loss_is_the_sum_over_backwards_and_the_mean_over_ranks():
    half = {rank: steps(({}, {"losses": ("0x1p-1", "0x1p-1")})) for rank in (0, 1)}
    quarters = {0: steps(({}, {"losses": ("0x1p-2",) * 4}))}
    assert GlobalSteps.of(half, 2).losses == GlobalSteps.of(quarters, 1).losses == {1: 1.0}
    assert GlobalSteps.of({0: steps(({}, {"losses": ("tensor:abc",)}))}, 1).losses == {}


def test_what_is_sharded_is_the_sum_of_its_parts():
    def sharded(world):
        return {
            rank: steps(({"model": f"{rank}/{world}"}, {"parts": {"model": share("m@3", rank, world)}}))
            for rank in range(world)
        }

    wholes = [GlobalSteps.of(sharded(world), world) for world in (1, 2, 5)]
    assert len({one.ranks[0].columns["model"][0] for one in wholes}) == 1
    assert "model" not in wholes[1].local
    untold = {rank: steps(({"model": f"{rank}/2"}, {})) for rank in (0, 1)}
    assert "model" not in GlobalSteps.of(untold, 2, sharded=["model"]).ranks[0].columns
    assert "model" in GlobalSteps.of(untold, 2).local


def test_what_is_a_rank_s_own_is_no_other_rank_s():
    whole = Writer().control().case().reference.global_steps
    assert whole.local == {"rng.torch", "rng.python"}
    known, new = whole.rank(1, local=whole.local), whole.rank(7, local=whole.local)
    assert known.columns["rng.torch"][0] == "rng.torch.1@0" and "rng.torch" not in new.columns
    assert new.columns["model"] == known.columns["model"]


def test_parts_come_and_go_with_the_steps():
    made = steps(({"a": "1"}, {}), ({"a": "2"}, {"parts": {"a": "p"}}), ({"a": "3"}, {}))
    assert made.parts == {"a": [None, "p", None]}
    assert [dict(step.parts) for step in made] == [{}, {"a": "p"}, {}]
