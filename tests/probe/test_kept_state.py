"""Parts of a state that are kept and put back are the same to the bit, whatever was there meanwhile."""

import io
import random

import numpy
import pytest
import torch

from chaoskit.probe import kept_state
from chaoskit.probe.rates import Rates, RatesWriter, as_text
from chaoskit.probe.streams import streams


def through_a_file(kept):
    """What a rank reads back."""
    file = io.BytesIO()
    torch.save(kept, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=True)


def model():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))


def trained(net, optimizer, steps=2):
    for _ in range(steps):
        net(torch.randn(5, 3)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("of", [kept_state.parameters_of, kept_state.buffers_of])
def test_tensors_are_put_back_in_place(of):
    one, other = model(), model()
    trained(one, torch.optim.SGD(one.parameters(), lr=0.1))
    kept = through_a_file(kept_state.packed(of(one)))
    live = of(other)
    before = {name: tensor.data_ptr() for name, tensor in live.items()}
    with torch.no_grad():
        kept_state.put_tensors(live, kept, "model")
    assert kept_state.fingerprint(of(other)) == kept_state.fingerprint(of(one))
    assert before == {name: tensor.data_ptr() for name, tensor in of(other).items()}
    with pytest.raises(ValueError, match="other tensors"):
        kept_state.put_tensors({"a": torch.zeros(1)}, kept, "model")
    name = next(iter(live))
    with pytest.raises(ValueError, match="a tensor of the reference"):
        kept_state.put_tensors({**live, name: torch.zeros(7)}, kept, "model")


def test_the_state_of_an_optimizer_comes_back_also_if_it_has_none_or_another_layout():
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    trained(net, optimizer)
    wanted = kept_state.fingerprint(kept_state.states_of([optimizer], [net]))
    kept = through_a_file(kept_state.packed(kept_state.states_of([optimizer], [net])))
    optimizer.state.clear()
    kept_state.put_states([optimizer], [net], kept)
    assert kept_state.fingerprint(kept_state.states_of([optimizer], [net])) == wanted
    first = next(iter(optimizer.state.values()))
    first["exp_avg"] = first["exp_avg"].to(torch.bfloat16)
    first["exp_avg_sq"] = first["exp_avg_sq"].reshape(-1)
    kept_state.put_states([optimizer], [net], kept)
    assert kept_state.fingerprint(kept_state.states_of([optimizer], [net])) == wanted
    trained(net, optimizer)
    with pytest.raises(ValueError, match="optimizers"):
        kept_state.put_states([], [net], kept)


def test_schedules_go_on_from_where_the_reference_was():
    def scheduled():
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        return net, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1 + step))

    _, one, schedule = scheduled()
    for _ in range(5):
        one.step()
        schedule.step()
    kept = through_a_file(kept_state.schedule_of([one]))
    _, other, late = scheduled()
    kept_state.put_schedule([other], kept)
    assert other.param_groups[0]["lr"] == one.param_groups[0]["lr"]
    other.step()
    late.step()
    schedule.step()
    assert other.param_groups[0]["lr"] == one.param_groups[0]["lr"]


def test_rates_and_options_are_held_by_the_names_of_the_parameters(tmp_path):
    net = model()
    first, last = list(net[0].parameters()), [*net[1].parameters(), *net[2].parameters()]
    one = torch.optim.AdamW([{"params": first, "lr": 0.3}, {"params": last, "betas": (0.8, 0.99)}], lr=0.1)
    writer = RatesWriter(tmp_path / "rates.jsonl")
    writer.write(1, [one], [net])
    writer.write(2, [one], [net])
    one.param_groups[0]["lr"] = 0.2
    writer.write(3, [one], [net])
    assert len((tmp_path / "rates.jsonl").read_text().splitlines()) == 2, (
        "what did not change is not written again"
    )
    rates = Rates((tmp_path / "rates.jsonl").read_bytes())
    # Groups in another order.
    other = torch.optim.AdamW([{"params": last}, {"params": first}], lr=0.7)
    rates.hold(2, [other], [net], lr=True, options=False)
    assert [group["lr"] for group in other.param_groups] == [0.1, 0.3]
    assert other.param_groups[0]["betas"] == (0.9, 0.999)
    rates.hold(9, [other], [net], lr=True, options=True)
    assert [group["lr"] for group in other.param_groups] == [0.1, 0.2]
    assert other.param_groups[0]["betas"] == (0.8, 0.99)
    assert as_text([other], lr=True) != as_text([one], lr=True)
    with pytest.raises(ValueError, match="divided"):
        rates.hold(9, [torch.optim.AdamW(net.parameters())], [net], lr=True, options=False)
    with pytest.raises(ValueError, match="no rates"):
        rates.hold(0, [other], [net], lr=True, options=False)


def test_each_random_stream_is_put_back_alone():
    kept = through_a_file(kept_state.random_streams(torch))
    wanted = streams(torch)
    random.random(), numpy.random.random(), torch.rand(1)
    moved = streams(torch)
    kept_state.set_random_streams({"rng.torch": kept["rng.torch"]}, torch)
    now = streams(torch)
    assert now["rng.torch"] == wanted["rng.torch"]
    assert all(now[name] == moved[name] != wanted[name] for name in ("rng.python", "rng.numpy"))
    kept_state.set_random_streams(kept, torch)
    assert streams(torch) == wanted


def test_scalers_come_back_also_before_their_first_use():
    used, fresh = (torch.amp.GradScaler("cpu", init_scale=8.0) for _ in range(2))
    used.scale(torch.ones(1))
    kept = through_a_file(kept_state.packed(kept_state.scalers_of([used])))
    loaded = torch.amp.GradScaler("cpu")
    loaded.load_state_dict(used.state_dict())
    assert kept_state.scales_of([loaded]) == kept_state.scales_of([used]) != kept_state.scales_of([])
    kept_state.put_scalers([fresh], kept)
    assert fresh.get_scale() == 8.0
    with pytest.raises(ValueError, match="gradient scalers"):
        kept_state.put_scalers([], kept)


def test_what_cannot_be_kept_is_refused():
    with pytest.raises(TypeError, match="object"):
        kept_state.packed({"a": [object()]})
