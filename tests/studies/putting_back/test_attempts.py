"""Which further runs prove something: those in which the components were seen to be put back, and that are exact."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from chaoskit.engine.kept_state import KeptState
from chaoskit.errors import Undecided
from chaoskit.protocol.events import EventWriter
from chaoskit.studies.putting_back import lost_state, prove, rerun
from chaoskit.verdict import failed, inconclusive, merge, passed
from tests.history_writer import killed

MODULE = "chaoskit.studies.putting_back.attempts"


@dataclass
class Told:
    """As much of a `Run` as is asked for."""

    writer: object
    dir: Path = Path()
    verdicts: tuple = (passed("completed", "It ended."),)
    experiment: str = "test_it"

    def __post_init__(self):
        self.case = self.writer.case()
        self.history, self.reference, self.job = self.case.history, self.case.reference, None

    @property
    def outcome(self):
        return merge(one.outcome for one in self.verdicts)


class Runner:
    """Runs what it is given, one after the other; `orders` are what the ranks would have been told."""

    environment, store = "local", None

    def __init__(self, run, *further):
        self.run, self.further, self.orders = run, list(further), []
        self.progress = self

    def phase(self, text):
        pass

    def reference(self, job):
        return self.run.reference


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Call it with a run and the further ones: (run, events of rank 0); what each rank put back is told by them."""

    def make(run, *further):
        runs = []
        for number, (one, events) in enumerate(further):
            one.dir = tmp_path / str(number)
            (one.dir / "events").mkdir(parents=True)
            for rank in (0, 1):
                writer = EventWriter(one.dir / "events" / f"rank-1-0-{rank}-1.jsonl")
                for kind, data in events:
                    writer.write(kind, **data)
                writer.close()
            runs.append(one)
        runner = Runner(run, *runs)

        def replay(run, runner, *, put_back):
            runner.orders.append(put_back)
            return runner.further.pop(0)

        monkeypatch.setattr(f"{MODULE}.replay", replay)
        monkeypatch.setattr(f"{MODULE}.keep", lambda *a, **k: KeptState("/kept", frozenset(), frozenset(), {}))
        return runner

    return make


def put(component, before="a", after="b"):
    return "state.put", {"n": 1, "position": 20, "moment": "draw", "components": {component: [before, after]}}


def lossy(component="optimizer", base=20):
    return Told(
        killed(off={component: 0}, base=base), verdicts=(failed("state_restored", "No.", "rng-not-restored"),)
    )


def exact(base=20):
    return Told(killed(base=base))


def test_an_exact_run_in_which_the_component_changed_is_a_proof(made):
    run = lossy()
    runner = made(run, (exact(), [put("optimizer")]))
    proof = prove(runner, run)
    assert (proof.outcome, proof.put_back, proof.experiment) == ("proven", ("optimizer",), "test_it")
    assert runner.orders[0].resumed[0].ranks == {0: ("optimizer",), 1: ("optimizer",)}


@pytest.mark.parametrize(
    ("further", "events", "said"),
    [
        (exact(), [put("optimizer", "a", "a")], "had the right value before"),
        (exact(), [], "did not come to its first step"),
        (exact(), [put("lr")], "the ranks did not find it"),
        (exact(base=0), [put("optimizer")], "resumed from step 0"),
        (
            exact(),
            [put("optimizer"), ("probe.error", {"where": "put back", "error": "ValueError: no"})],
            "ValueError",
        ),
    ],
    ids=["unchanged", "silent", "another", "elsewhere", "error"],
)
def test_an_exact_run_that_was_not_what_was_planned_proves_nothing(made, further, events, said):
    run = lossy()
    proof = prove(made(run, (further, events)), run)
    assert proof.outcome == "impossible" and said in proof.sentence, proof


def test_what_remains_is_named(made):
    run = lossy()
    more = replace(
        exact(), verdicts=(failed("matches_reference", "No.", "loss-diverged"), passed("completed", "Yes."))
    )
    proof = prove(made(run, (more, [put("optimizer")])), run)
    assert (proof.outcome, proof.codes) == ("more-lost", ("loss-diverged",))


def test_a_run_that_cannot_be_judged_proves_nothing(made):
    run = lossy()
    unknown = replace(exact(), verdicts=(inconclusive("completed", "Nobody saw it.", "probe-blind"),))
    proof = prove(made(run, (unknown, [put("optimizer")])), run)
    assert proof.outcome == "impossible" and "Nobody saw it" in proof.sentence


def test_streams_are_put_back_at_one_moment_after_the_other(made):
    run = lossy("rng.torch")
    wrong = (failed("matches_reference", "No.", "rng-not-restored"),)
    further = [(replace(exact(), verdicts=wrong), [put("rng.torch")]) for _ in range(2)]
    runner = made(run, *further, (exact(), [put("rng.torch")]))
    proof = prove(runner, run)
    assert proof.outcome == "proven" and "checkpoint had been loaded" in proof.sentence
    assert [order.moment for order in runner.orders] == ["draw", "forward", "load"]


def test_the_position_in_the_data_is_put_back_last_and_only_if_data_still_differs(made):
    run = lossy("lr")
    wrong = (failed("same_data", "No.", "data-replayed"),)
    further = [
        (replace(exact(), verdicts=wrong), [put("lr")]),
        (replace(exact(), verdicts=wrong), [put("lr")] * 2),
    ]
    both = [put("lr"), put("batch")]
    runner = made(run, *further, (exact(), both))
    found = rerun(runner, run, lost_state(run.case))
    assert found.exact and set(found.changed) == {"lr", "batch"}
    assert [order.way for order in runner.orders] == ["epoch", "epoch", "flow"]
    assert [order.components for order in runner.orders] == [("lr",), ("lr", "batch"), ("lr", "batch")]


def test_a_job_that_has_changed_since_is_not_repeated(made):
    run = lossy()
    runner = made(run)
    runner.reference = lambda job: killed(tell=lambda name, rank, at: f"{name}!{rank}@{at}").case().reference
    proof = prove(runner, run)
    assert proof.outcome == "impossible" and "is not what it was" in proof.sentence
    with pytest.raises(Undecided):
        rerun(runner, run, lost_state(run.case))
