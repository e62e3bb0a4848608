"""State belongs to a name: what is recorded does not depend on how the groups of an optimizer are built."""

import gc
import weakref

import pytest

from chaoskit.probe import components
from chaoskit.probe.naming import in_order, naming, parameters
from chaoskit.probe.tensors import tensors
from chaoskit.protocol.fingerprint import of_value

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.c, self.a, self.b = (torch.nn.Linear(4, 4, bias=False) for _ in range(3))

    def forward(self, x):
        return self.a(self.b(self.c(x)))


def trained(*groups, model=None, rates=(0.1,) * 4, decays=(0.0,) * 4, kinds=1):
    """A model and its optimizers, after one step; `groups` are the layers of each group."""
    model = model or Net()
    made = [
        {"params": [getattr(model, name).weight for name in names], "lr": rate, "weight_decay": decay}
        for names, rate, decay in zip(groups, rates, decays, strict=False)
    ]
    share = -(-len(made) // kinds)
    optimizers = [torch.optim.AdamW(made[at : at + share]) for at in range(0, len(made), share)]
    model(torch.arange(8.0).reshape(2, 4)).sum().backward()
    for each in optimizers:
        each.step()
    return optimizers, [model]


def told(optimizers, roots):
    """What a step says of the model, the optimizer, the options and the learning rates."""
    return (
        components.model(parameters(optimizers, roots)).hexdigest(),
        components.optimizer(optimizers, roots).hexdigest(),
        components.options(optimizers, roots).hexdigest(),
        components.learning_rates(optimizers, roots),
    )


def test_the_order_and_the_number_of_groups_and_optimizers_make_no_difference():
    usual = told(*trained("ab", "c"))
    for other in (trained("c", "ba"), trained("c", "b", "a"), trained("abc"), trained("c", "ab", kinds=2)):
        assert told(*other) == usual


def test_options_and_rates_are_those_of_a_name():
    one = trained("ab", "c", rates=(0.1, 0.2), decays=(0.3, 0.0))
    assert told(*one) == told(*trained("c", "ba", rates=(0.2, 0.1), decays=(0.0, 0.3)))
    _, _, options, rates = told(*one)
    moved = told(*trained("ac", "b", rates=(0.1, 0.2), decays=(0.3, 0.0)))
    assert moved[2] != options and moved[3] != rates
    # The rates themselves can be read.
    assert [float.fromhex(rate) for rate in rates.split()[:2]] == [0.1, 0.2] and rates.split()[2].startswith("@")
    assert components.learning_rates(*trained("ab", "c")) == (0.1).hex()


def test_state_of_another_name_shows():
    optimizers, roots = trained("abc")
    right = told(optimizers, roots)
    state, (a, b) = optimizers[0].state, [getattr(roots[0], name).weight for name in "ab"]
    state[a], state[b] = state[b], state[a]
    wrong = told(optimizers, roots)
    assert wrong[1] != right[1] and (wrong[0], *wrong[2:]) == (right[0], *right[2:])
    # Also where the other one had none.
    del state[b]
    one = told(optimizers, roots)[1]
    state[b] = state.pop(a)
    assert told(optimizers, roots)[1] != one


def test_a_group_that_is_added_later_is_named_then():
    model = Net()
    model.c.requires_grad_(False)
    optimizers, roots = trained("ab", model=model)
    before = naming(optimizers, roots)
    assert list(before.names.values()) == ["a.weight", "b.weight", "c.weight"]
    assert before is naming(optimizers, roots), "it was named again although nothing had changed"
    alone = told(optimizers, roots)
    optimizers[0].add_param_group({"params": [model.c.weight], "lr": 0.1, "weight_decay": 0.0})
    # A frozen weight in a group and outside of one is the same.
    assert told(optimizers, roots) == alone
    model.d = torch.nn.Linear(4, 4, bias=False)
    optimizers[0].add_param_group({"params": [model.d.weight], "lr": 0.1, "weight_decay": 0.0})
    assert list(naming(optimizers, roots).names.values())[-1] == "d.weight"
    assert told(optimizers, roots)[0] != alone[0]


def test_a_tied_parameter_has_the_first_of_its_names():
    model = Net()
    model.a.weight = model.c.weight
    optimizers, roots = trained("cb", model=model)
    assert list(naming(optimizers, roots).names.values()) == ["b.weight", "c.weight"]
    assert set(tensors(optimizers, roots, [])["model"]) == {"b.weight", "c.weight"}


def test_modules_that_are_called_in_another_order_and_parts_of_modules():
    """A loop that resumes with the other of two models calls that one first."""
    large, small = Net(), torch.nn.Linear(4, 4, bias=False)
    optimizer = torch.optim.SGD([*large.parameters(), *small.parameters()], lr=0.1)
    assert told([optimizer], [large, small]) == told([optimizer], [small, large])
    assert in_order([small, large]) == [large, small]
    whole = told([optimizer], [large, small])
    assert told([optimizer], [large.b, small, large]) == whole


def test_parameters_of_no_module_keep_the_order_of_the_groups():
    w, v = (torch.full((2,), float(n), requires_grad=True) for n in (1, 2))
    one, other = (torch.optim.SGD([{"params": [a]}, {"params": [b]}], lr=0.1) for a, b in ((w, v), (v, w)))
    assert list(naming([one], []).names.values()) == ["group0.0", "group1.0"]
    assert parameters([one], [])[0] is w and parameters([other], [])[0] is v


def test_a_loss_module_made_anew_for_every_step_costs_no_new_names():
    optimizers, roots = trained("abc")
    first = naming(optimizers, [*roots, torch.nn.MSELoss()])
    assert naming(optimizers, [*roots, torch.nn.MSELoss()]) is first


def test_nothing_is_kept_alive():
    optimizers, roots = trained("abc")
    told(optimizers, roots)
    gone = weakref.ref(roots[0].a.weight)
    del optimizers, roots
    gc.collect()
    assert gone() is None


def test_options_by_name_are_among_the_tensors():
    optimizers, roots = trained("ab", "c", decays=(0.3, 0.0))
    found = {name: value.hexdigest() for name, value in tensors(optimizers, roots, [])["options"].items()}
    assert found["a.weight"] == found["b.weight"] != found["c.weight"]
    assert set(tensors(optimizers, roots, [])["model"]) == set(found)


def test_a_wrapped_model_gives_the_same(monkeypatch):
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        plain = told(*trained("ab", "c"))
        optimizers, (model,) = trained("ab", "c")
        replicated = torch.nn.parallel.DistributedDataParallel(model)
        compiled = torch.compile(replicated, backend="eager")
        assert told(optimizers, [replicated]) == told(optimizers, [compiled]) == plain
    finally:
        torch.distributed.destroy_process_group()


def test_a_value_of_a_name_is_its_fingerprint():
    optimizers, (model,) = trained("abc")
    named = {name: value.hexdigest() for name, value in tensors(optimizers, [model], [])["model"].items()}
    assert named == {name: of_value(p) for name, p in model.named_parameters()}
