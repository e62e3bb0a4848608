"""The parts of a rank's state as plain values and tensors that a file can keep, and how they are put back in place.

`packed` makes a copy of what is there, `placed` puts a copy back: into the tensors that exist already where they have
the same shape and type, else as new ones on the same device, sharded as the parameter that they belong to.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from chaoskit.probe import components
from chaoskit.probe.deferred import DeferredEvent
from chaoskit.probe.naming import free, naming, own_name
from chaoskit.protocol.fingerprint import Fingerprint, is_tensor, local_part

#: Marks a dictionary that stands for a tensor.
_TENSOR = "chaoskit.tensor"
_PLAIN = (bool, int, float, str, type(None))


def packed(value: Any) -> Any:
    """A copy of nested tensors and plain values, the tensors on the CPU. Raises TypeError for anything else."""
    if is_tensor(value):
        local = local_part(value)
        copy = local.detach().to("cpu", copy=True)
        return {_TENSOR: copy, "sharded": local is not value, "cpu": local.is_cpu}
    if isinstance(value, Mapping):
        return {name: packed(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(packed(item) for item in value)
    if isinstance(value, _PLAIN):
        return value
    raise TypeError(f"a {type(value).__name__} in the training state cannot be kept")


def placed(live: Any, kept: Any, *, like: Any = None, replace: bool = True) -> Any:
    """What stands in the place of `live` afterwards. A new tensor is made as `like`, where there is none that fits;
    raises ValueError where that may not be, because others hold the tensor (not `replace`)."""
    if isinstance(kept, Mapping) and _TENSOR in kept:
        value = kept[_TENSOR]
        if is_tensor(live):
            local = local_part(live)
            if local.shape == value.shape and local.dtype == value.dtype:
                local.copy_(value)
                return live
            if not replace:
                shapes = f"{tuple(value.shape)} {value.dtype}, not {tuple(local.shape)} {local.dtype}"
                raise ValueError(f"a tensor of the reference is {shapes}")
        return _made(kept, like)
    if isinstance(kept, Mapping):
        named = live if isinstance(live, Mapping) else {}
        return {name: placed(named.get(name), item, like=like, replace=replace) for name, item in kept.items()}
    if isinstance(kept, (list, tuple)):
        held: Sequence[Any] = (
            live if isinstance(live, (list, tuple)) and len(live) == len(kept) else [None] * len(kept)
        )
        return type(kept)(placed(a, b, like=like, replace=replace) for a, b in zip(held, kept, strict=True))
    return kept


def _made(kept: Mapping[str, Any], like: Any) -> Any:
    """A new tensor; on the device of `like`, and sharded as it, where the kept one was so."""
    value = kept[_TENSOR].clone()
    if not kept["cpu"] and is_tensor(like):
        value = value.to(local_part(like).device)
    if not kept["sharded"]:
        return value
    if not is_tensor(like) or local_part(like) is like or local_part(like).shape != value.shape:
        raise ValueError(
            "a sharded tensor of the reference belongs to no parameter that is sharded in the same way"
        )
    dtensor = sys.modules["torch.distributed.tensor"].DTensor
    return dtensor.from_local(value, like.device_mesh, like.placements, shape=like.shape, stride=like.stride())


def fingerprint(value: Any) -> str:
    """The fingerprint of nested tensors and values, complete: waits for a device."""
    whole = Fingerprint()
    whole.value(value)
    return str(DeferredEvent({"whole": whole}).settled()["whole"])


# What the modules hold.


def parameters_of(root: Any) -> dict[str, Any]:
    """The parameters of an outermost module by name."""
    found: dict[str, Any] = {}
    for name, parameter in root.named_parameters():
        found[free(own_name(name), found)] = parameter
    return found


def buffers_of(root: Any) -> dict[str, Any]:
    """The buffers of an outermost module by name."""
    found: dict[str, Any] = {}
    for name, buffer in components.held_buffers([root]):
        found[free(own_name(name), found)] = buffer
    return found


def averages_of(models: Sequence[Any]) -> list[dict[str, Any]]:
    """The parameters and buffers of each averaged model by name."""
    return [{**dict(one.named_parameters()), **dict(one.named_buffers())} for one in models]


def put_tensors(live: Mapping[str, Any], kept: Mapping[str, Any], what: str) -> None:
    """Copy tensors into those of the same names. Raises ValueError where the names are others."""
    if live.keys() != kept.keys():
        other = next(iter(live.keys() ^ kept.keys()))
        raise ValueError(f"the {what} has other tensors than in the reference: {other}")
    for name, tensor in live.items():
        placed(tensor, kept[name], replace=False)


# What the optimizers and the scalers hold.


def states_of(optimizers: Sequence[Any], roots: Sequence[Any]) -> list[dict[str, Any]]:
    """Of each optimizer the state of each parameter that has one, by the name of the parameter."""
    names = naming(optimizers, roots).names
    return [
        {
            names[id(p)]: dict(kept)
            for group in each.param_groups
            for p in group["params"]
            if (kept := each.state.get(p))
        }
        for each in optimizers
    ]


def put_states(optimizers: Sequence[Any], roots: Sequence[Any], kept: Sequence[Mapping[str, Any]]) -> None:
    """Put the state of each parameter back; one that had none in the reference has none afterwards."""
    _same_count("optimizers", optimizers, kept)
    names = naming(optimizers, roots).names
    for each, states in zip(optimizers, kept, strict=True):
        owned = {names[id(p)]: p for group in each.param_groups for p in group["params"]}
        if foreign := sorted(states.keys() - owned.keys()):
            raise ValueError(f"the optimizer has no parameter {foreign[0]}")
        for name, parameter in owned.items():
            if name in states:
                each.state[parameter] = placed(each.state.get(parameter), states[name], like=parameter)
            else:
                each.state.pop(parameter, None)


def scalers_of(scalers: Sequence[Any]) -> list[list[Any]]:
    """Scale and growth tracker of each enabled scaler."""
    return [[each._scale, each._growth_tracker] for each in scalers if each.is_enabled()]


def scales_of(scalers: Sequence[Any]) -> list[tuple[float, int]]:
    """The numbers themselves, for a comparison: a scaler that was loaded, and not used yet, has no tensors."""
    found = []
    for each in (one for one in scalers if one.is_enabled()):
        scale = each._init_scale if each._scale is None else each._scale
        tracker = each._init_growth_tracker if each._growth_tracker is None else each._growth_tracker
        found.append((float(scale), int(tracker)))
    return found


def put_scalers(scalers: Sequence[Any], kept: Sequence[Sequence[Any]]) -> None:
    """Put scale and growth tracker back."""
    used = [each for each in scalers if each.is_enabled()]
    _same_count("gradient scalers", used, kept)
    torch = sys.modules["torch"]
    for each, (scale, tracker) in zip(used, kept, strict=True):
        like = torch.empty((), device=getattr(each, "_device", "cpu"))
        each._scale = placed(each._scale, scale, like=like)
        each._growth_tracker = placed(each._growth_tracker, tracker, like=like)


# Schedules.


def schedule_of(optimizers: Sequence[Any]) -> dict[str, Any]:
    """The learning rates by the place of their groups, and the plain attributes of torch's schedulers."""
    return {
        "rates": [[packed(group["lr"]) for group in each.param_groups] for each in optimizers],
        "schedulers": [[type(each).__qualname__, _attributes(each)] for each in schedulers_of(optimizers)],
    }


def put_schedule(optimizers: Sequence[Any], kept: Mapping[str, Any]) -> None:
    """Put rates and schedulers back, as far as they are those of the reference. What this leaves undone, the rates of
    each step make good (see `Rates`); but a job may also print what its scheduler says."""
    rates = kept["rates"]
    if [len(own) for own in rates] == [len(each.param_groups) for each in optimizers]:
        for each, own in zip(optimizers, rates, strict=True):
            for group, rate in zip(each.param_groups, own, strict=True):
                group["lr"] = placed(group["lr"], rate)
    found = schedulers_of(optimizers)
    if [type(each).__qualname__ for each in found] == [name for name, _ in kept["schedulers"]]:
        for each, (_, attributes) in zip(found, kept["schedulers"], strict=True):
            vars(each).update({name: placed(vars(each).get(name), value) for name, value in attributes.items()})


def schedulers_of(optimizers: Sequence[Any]) -> list[Any]:
    """The schedulers of torch that belong to these optimizers, and those that are made of several."""
    kind = sys.modules["torch"].optim.lr_scheduler.LRScheduler
    ours = [id(each) for each in optimizers]
    found = []
    for one in gc.get_objects():
        if isinstance(type(one), type) and issubclass(type(one), kind):
            owner = getattr(one, "optimizer", None)
            found += [(ours.index(id(owner)), type(one).__qualname__, one)] if id(owner) in ours else []
    return [one for _, _, one in sorted(found, key=lambda entry: entry[:2])]


def _attributes(scheduler: Any) -> dict[str, Any]:
    found = {}
    for name, value in vars(scheduler).items():
        try:
            found[name] = packed(value)
        except TypeError:
            continue  # a function, the optimizer: they are made anew at each start
    return found


# Random streams.


def random_streams(torch: Any) -> dict[str, Any]:
    """The state of every random generator of the process, by the name of its component."""
    version, words, gauss = random.getstate()
    kept: dict[str, Any] = {"rng.python": [version, list(words), gauss]}
    kept["rng.torch"] = torch.default_generator.get_state()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        name, keys, *rest = numpy_random.get_state(legacy=True)
        kept["rng.numpy"] = [name, keys.tolist(), *rest]
    if torch.cuda.is_initialized():
        for index, generator in enumerate(torch.cuda.default_generators):
            kept[f"rng.cuda:{index}"] = generator.get_state()
    return kept


def set_random_streams(kept: Mapping[str, Any], torch: Any) -> None:
    """Set these generators, and no others."""
    for name, state in kept.items():
        if name == "rng.python":
            version, words, gauss = state
            random.setstate((version, tuple(words), gauss))
        elif name == "rng.torch":
            torch.default_generator.set_state(state)
        elif name == "rng.numpy":
            import numpy

            algorithm, keys, *rest = state
            numpy.random.set_state((algorithm, numpy.array(keys, dtype=numpy.uint32), *rest))
        elif name.startswith("rng.cuda:"):
            torch.cuda.default_generators[int(name.partition(":")[2])].set_state(state)


def _same_count(what: str, live: Sequence[Any], kept: Sequence[Any]) -> None:
    if len(live) != len(kept):
        raise ValueError(f"the job has {len(live)} {what}, and {len(kept)} in the reference")
