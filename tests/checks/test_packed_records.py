"""Real fingerprints are packed, the words of the other tests are not: the verdicts are the same."""

from dataclasses import replace

import pytest

from chaoskit import checks
from chaoskit.analysis.record.column import Column
from chaoskit.analysis.record.history import History, lifetimes
from chaoskit.analysis.reference.reference import Reference
from chaoskit.protocol.fingerprint import of_bytes
from tests.history_writer import Writer, killed

STEPS = ("step", "halt", "late", "held")


def real(value):
    """A fingerprint in the place of a word."""
    return of_bytes(value.encode())


def in_fingerprints(writer):
    """The events of a run with real fingerprints of components and samples."""
    for event in writer.events:
        data = dict(event.data)
        if event.kind in STEPS and "state" in data:
            data["state"] = {name: real(value) for name, value in data["state"].items()}
        if event.kind in STEPS and "samples" in data:
            data["samples"] = [real(value)[:16] for value in data["samples"]]
        if event.kind == "rng0":
            data["value"] = real(data["value"])
        yield replace(event, data=data)


def samples(rank, at):
    """Two samples, and one at the end of each epoch."""
    return [f"{rank}.{at}.{n}" for n in range(1 if at % 20 == 19 else 2)]


def rolled_back():
    run = Writer(samples=samples)
    return run.launch().live(until=45).fault().died().launch().live(base=20, ends=True).exit(0).end()


RUNS = {
    "exact": lambda: killed(samples=samples),
    "rolled back": rolled_back,
    "scratch": lambda: killed(base=0, samples=samples),
    "model elsewhere": lambda: killed(off={"model": 0}),
    "optimizer unknown": lambda: killed(off={"optimizer": "nowhere"}),
    "learning rate": lambda: killed(off={(1, "lr"): 0}),
    "stream of one rank": lambda: killed(off={(1, "rng.torch"): 0}),
    "absent": lambda: killed(off={"ema": None}),
    "data again": lambda: killed(off={"batch": 10}),
    "killed at the gate": lambda: killed(off={"scaler": 0}, samples=samples),
}
JUDGES = (
    checks.state_restored(), checks.same_data(), checks.matches_reference(), checks.replicas_agree(),
    checks.samples_exactly_once(), checks.completed(), checks.recoveries_exact(),
)  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_the_verdicts_are_those_on_texts(name):
    run = RUNS[name]()
    controls = [run.control() for _ in range(2)]
    texts = checks.Case(run.history(), Reference.of([one.history() for one in controls]))
    packed = checks.Case(
        History.of(in_fingerprints(run)), Reference.of([History.of(in_fingerprints(one)) for one in controls])
    )
    for _, own in lifetimes(packed.history):
        columns = [*own.steps.columns.values(), own.steps.losses]
        assert columns and all(isinstance(one, Column) and isinstance(one.cells, bytes) for one in columns)
    for judge in JUDGES:
        one, other = judge(texts), judge(packed)
        assert (other.outcome, other.codes, other.sentence) == (one.outcome, one.codes, one.sentence), judge.name
    assert packed.table() == texts.table()
