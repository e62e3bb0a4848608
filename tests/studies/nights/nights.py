"""Nights by hand: suites one day apart, what came of their experiments, and noise of every kind."""

import math
import random
from datetime import UTC, datetime, timedelta

from chaoskit.engine.result import Result
from chaoskit.engine.run_store import Store
from chaoskit.studies.nights.archive import Archive, Writer
from chaoskit.studies.nights.baseline import Baseline
from chaoskit.studies.nights.conditions import Conditions
from chaoskit.studies.nights.suite import Suite, key_of

JOB = "torchrun train.py --out {out}"
MACHINE = {"host": "box", "processor": "x86_64", "cores": "8", "python": "3.11.7"}
FIRST = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)
LETTERS = {"p": "pass", "f": "fail", "i": "inconclusive", "s": "skipped", "a": "accepted"}


def result(verdict="p", name="test_kill", **fields):
    """What came of one experiment; `verdict` is a letter."""
    told = {"f": {"codes": ("rng-not-restored",), "sentences": ("The RNG was not restored.",)}}.get(verdict, {})
    known = {"job": JOB, "references": ("ref",), "steps_lost": 5, **told, **fields}
    return Result(name, LETTERS[verdict], **known)


SOURCES = Conditions({}, {"train.py": "1"})


def night(at, *results, settings=None, conditions=SOURCES, **fields):
    """The suite of a night, counted in days; `settings` are those of its uninterrupted run, `conditions` those of all
    its experiments."""
    moment = FIRST + timedelta(days=at)
    baselines = {} if settings is None else {"ref": Baseline(("train.py",), 0, True, {}, settings=settings)}
    name, created = f"{moment:%Y%m%d-%H%M%S}-{at:03d}", moment.isoformat(timespec="milliseconds")
    known = {
        "id": name,
        "created": created,
        "chaoskit": "0.1.0",
        "machine": MACHINE,
        "baselines": baselines,
        "conditions": {key_of(one): conditions for one in results if conditions is not None},
        **fields,
    }
    return Suite(command=(), results=tuple(results), **known)


def verdicts(letters, name="test_kill", **fields):
    """A night for each letter; a blank is one on which the experiment was not run."""
    return [
        night(at, *([] if letter == " " else [result(letter, name)]), **fields)
        for at, letter in enumerate(letters)
    ]


def keep(root, suites):
    """A store that holds these suites, written as a session writes them."""
    store = Store(root)
    archive = Archive(store)
    for suite in suites:
        store.prepare()
        bare = {**suite.__dict__, "results": (), "baselines": {}, "conditions": {}}
        writer = Writer(archive, Suite(**bare), since=0.0)
        for one in suite.results:
            writer.add(one, suite.conditions.get(key_of(one)))
        writer.end()
    return store


def correlated(count, correlation, draw):
    """Noise of which each value is like the one before it."""
    values = [draw.gauss(0, 1)]
    for _ in range(count - 1):
        values.append(correlation * values[-1] + math.sqrt(1 - correlation**2) * draw.gauss(0, 1))
    return values


def timed(
    count,
    *,
    experiments=20,
    seed=0,
    own=0.1,
    common=0.3,
    alike=0.0,
    seen=True,
    slow=0,
    heavy=False,
    own_alike=0.0,
    step=None,
    all_step=None,
):
    """Suites whose experiments all pass, with noise in their times (standard deviations of logarithms).

    `own` is that of each time of each experiment (`heavy`: of a t distribution with 2 degrees of freedom, `own_alike`:
    with that correlation of neighbouring nights), `common` that of each night, which all times share, with the
    correlation `alike`, and which the steps show too if it is `seen`. `slow` nights take three times as long. `step`,
    a ratio and a night, is that of the recovery of the first experiment; `all_step` that of the launches of all."""
    draw = random.Random(f"{seed} {count} {experiments}")
    nights = [common * value for value in correlated(count, alike, draw)]
    for at in draw.sample(range(count), slow):
        nights[at] += math.log(3)

    def noise():
        if heavy:
            return [own * draw.gauss(0, 1) / math.sqrt(draw.expovariate(1)) for _ in range(count)]
        return [own * value for value in correlated(count, own_alike, draw)]

    kept = [[] for _ in range(count)]
    for n in range(experiments):
        times = {name: noise() for name in ("recovery_seconds", "launch_seconds", "seconds")}
        steps = noise()
        for at in range(count):
            told = {name: math.exp(values[at] + nights[at]) for name, values in times.items()}
            if step and n == 0 and at >= step[1]:
                told["recovery_seconds"] *= step[0]
            if all_step and at >= all_step[1]:
                told["launch_seconds"] *= all_step[0]
            pace = 0.02 * math.exp(steps[at] + (nights[at] if seen else 0.0))
            kept[at].append(result(name=f"test_{n}", step_seconds=pace, **told))
    return [night(at, *results) for at, results in enumerate(kept)]
