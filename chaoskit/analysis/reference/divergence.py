"""`Divergence`: the first step at which two uninterrupted runs differ, and the likely cause."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from chaoskit.analysis.record.history import History
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.record.steps import LOSS, Step, Steps
from chaoskit.analysis.record.thin_steps import may_lack, places_known_apart, rests
from chaoskit.protocol.recording import AT_EVERY_STEP

#: Components that each step computes from all of its inputs.
COMPUTED = frozenset({"model", "buffers", "optimizer", "scaler", "ema"})


@dataclass(frozen=True)
class Divergence:
    """The first place at which two controls differ: step (from 1), rank, and each component (or `loss`) that
    differs there with both its values."""

    step: int
    rank: int
    values: Mapping[str, tuple[str, str]]
    sentence: str

    @property
    def components(self) -> tuple[str, ...]:
        """What differs, in the order of the tables."""
        return tuple(self.values)


def _find(control: History, rank: int, number: int) -> Step | None:
    lifetime = control.incarnations[0].ranks.get(rank)
    return lifetime.steps[number - 1] if lifetime is not None and number <= len(lifetime.steps) else None


def part(one: History, other: History, idle: frozenset[str]) -> Divergence | None:
    """Return the first difference of two uninterrupted runs, without idle streams; None if they agree to the bit."""
    found: list[tuple[int, int]] = []
    for rank in sorted({*one.ranks, *other.ranks}):
        lifetimes = [run.incarnations[0].ranks.get(rank) for run in (one, other)]
        first, second = (lifetime.steps if lifetime is not None else Steps() for lifetime in lifetimes)
        places = [at for name, at in apart_at(first, second) if at is not None and name not in idle]
        found += [(min(places) + 1, rank)] if places else []
    if not found:
        return None
    number, rank = min(found)
    first_step, second_step = _find(one, rank, number), _find(other, rank, number)
    if first_step is None:
        values = {"steps": ("not taken", "taken")}
    else:
        values = {name: v for name, v in differing(first_step, second_step).items() if name not in idle}
    alike = sorted(set(first_step.components) - set(values)) if first_step is not None else []
    lifetime = one.incarnations[0].ranks.get(rank)
    settings = lifetime.settings if lifetime is not None else {}
    on_cuda = first_step is not None and any(name.startswith("rng.cuda:") for name in first_step.components)
    sentence = _explain(number, rank, set(values), alike, loose(settings, on_cuda=on_cuda))
    return Divergence(number, rank, values, sentence)


def loose(settings: Mapping[str, str], *, on_cuda: bool) -> list[str]:
    """Of the settings that a rank computed with, those that let the same inputs give different results."""
    found = []
    if settings.get("deterministic algorithms") == "False":
        found.append("torch.use_deterministic_algorithms is off")
    if settings.get("cudnn benchmark") == "True":
        found.append("torch.backends.cudnn.benchmark is on")
    if settings and on_cuda and "CUBLAS_WORKSPACE_CONFIG" not in settings:
        found.append("CUBLAS_WORKSPACE_CONFIG is not set")
    return found


def _explain(number: int, rank: int, apart: set[str], alike: list[str], open_to_chance: list[str]) -> str:
    """One sentence; the guess at the cause is marked as one."""
    sentence = f"the controls diverge at step {number}, rank {rank}, in {', '.join(sorted(apart))}"
    if alike:
        sentence += f"; {', '.join(alike)} agree"
    inputs = {name for name in apart if name == "batch" or name.startswith("rng.")}
    if apart == {"steps"}:
        return f"{sentence}: one of them took more steps"
    if number == 1 and "model" in apart and not inputs:
        return f"{sentence}: the model is probably built before the seed is set"
    if number == 1 and inputs:
        cause = "the order of the data is" if inputs == {"batch"} else "the random numbers are"
        return f"{sentence}: {cause} probably not seeded"
    if not inputs:
        settings = f"; {', '.join(open_to_chance)}" if open_to_chance else ""
        return (
            f"{sentence}: the same inputs gave different results, so an operation is probably not deterministic "
            f"(torch.use_deterministic_algorithms(True) names it){settings}"
        )
    return sentence


def apart_at(one: Steps, other: Steps) -> Iterator[tuple[str, int | None]]:
    """Every component of two lifetimes, `loss` and `steps` (how many), with the first place at which they differ, as
    far as both are known."""
    shorter = min(len(one), len(other))
    yield "steps", None if len(one) == len(other) else shorter
    for name in dict.fromkeys([*one.columns, *other.columns, LOSS]):
        a, b = (one.column(name) or [], other.column(name) or [])
        if len(a) != len(b) and not (a and b):
            # One of them never has it.
            without = other if a else one
            thin = may_lack(name, without)
            had = (i for i, value in enumerate(a or b) if value)
            yield name, next((i for i in had if not (thin and i < len(without) and without.is_thin(i))), None)
            continue
        yield name, next(places_known_apart(name, one, other, count=shorter), None)


def differing(one: Step, other: Step | None) -> dict[str, tuple[str, str]]:
    """What differs between two records of a step: each component, and `loss`, with both values, as far as both are
    known."""
    if other is None:
        return {"steps": ("taken", "not taken")}
    names = [*one.components, *(name for name in other.components if name not in one.components)]
    found = {name: (one.components.get(name, "absent"), other.components.get(name, "absent")) for name in names}
    if one.losses != other.losses:
        found["loss"] = (" ".join(one.losses), " ".join(other.losses))
    unknown = found.keys() - AT_EVERY_STEP - {LOSS} if one.thin or other.thin else frozenset[str]()
    return {name: values for name, values in found.items() if values[0] != values[1] and name not in unknown}


def departures(
    steps: Steps, expected: Steps, count: int, *, base: int = 0
) -> Iterator[tuple[int, str, tuple[str, str]]]:
    """Where each component, and the loss, of the first `count` steps first is not what was expected of a lifetime that
    began at `base`: the true step, the name, both values.

    What one of the two lacks is no departure: the checks that need it will say so.
    """
    for name in [*steps.columns, LOSS]:
        own, other = steps.column(name), expected.column(name)
        if own is None or other is None:
            continue
        for start, end in steps.runs():
            at = base + steps.numbers[start] - 1
            stop = min(end, count, start + len(other) - at)
            count_here = max(0, stop - start)
            for place in places_known_apart(name, steps, expected, start=start, at=at, count=count_here):
                pair = own[start + place], other[at + place]
                if pair[0] and pair[1]:
                    yield at + place + 1, name, (pair[0], pair[1])
                    break


def diverged(
    lifetimes: Mapping[int, RankLifetime], expected: Mapping[int, Steps], *, base: int, comparable: Collection[str]
) -> Mapping[int, frozenset[str]]:
    """Return by rank the components whose state after the last step the reference does not show: those that had
    diverged from it by then, and all that a step computes from them, on any rank."""
    diverged_before: dict[int, set[str]] = {}
    for rank, lifetime in lifetimes.items():
        steps = lifetime.steps
        if lifetime.halted is not None:
            steps = steps.part(0, len(steps))
            steps.append(lifetime.halted)
        if not steps:
            continue
        found = departures(steps, expected.get(rank, Steps()), len(steps), base=base)
        diverged_before[rank] = {
            name for _, name, _ in found if name == LOSS or (name in comparable and not _rests(steps, name))
        }
    if not any(diverged_before.values()):
        return {}
    return {rank: frozenset(own | COMPUTED) & frozenset(comparable) for rank, own in diverged_before.items()}


def _rests(steps: Steps, name: str) -> bool:
    """Whether it is a random stream that nobody drew from, as far as was seen."""
    return name.startswith("rng.") and len(steps) > 1 and rests(name, steps)
