"""`causes_of`: which codes of one run are consequences, and of which other code of that run.

Each mechanism is a function from the evidence to pairs (consequence, cause). It speaks only where the verdicts show
that the one came of the other: at the same resume, on the same ranks, in the verdict that says so. Where nothing shows
it, both codes stay causes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chaoskit.engine.weaknesses import NUMBERS, TAKEN_IN
from chaoskit.errors import FAMILIES
from chaoskit.verdict import Verdict

Pair = tuple[str, str]

#: How a run ended, which says little about why.
ENDINGS = ("crash-loop", "hang", "exited-early", "restart-budget-spent")
#: The components of a checkpoint that training changes from step to step.
TRAINED = ("model", "buffers", "optimizer", "ema")


@dataclass(frozen=True)
class RunEvidence:
    """The verdicts of one run that decide it or passed, and the kinds of the faults that took effect in it."""

    verdicts: tuple[Verdict, ...]
    kinds: frozenset[str]

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """Each code once, in the order of the verdicts."""
        return tuple(dict.fromkeys(code for verdict in self.verdicts for code in verdict.codes))

    @cached_property
    def data(self) -> tuple[str, ...]:
        """The codes of the data; first what the check of the data says."""
        order = [*self.of("same_data"), *self.of("samples_exactly_once"), *self.codes]
        return tuple(dict.fromkeys(code for code in order if code.startswith("data-")))

    def of(self, check: str) -> tuple[str, ...]:
        """The codes of one check."""
        return tuple(code for verdict in self.verdicts if verdict.check == check for code in verdict.codes)

    def evidence(self, check: str) -> Mapping[str, Any]:
        """The evidence of one check; empty if it was not applied, or could not decide."""
        return next((verdict.evidence for verdict in self.verdicts if verdict.check == check), {})

    @cached_property
    def findings(self) -> tuple[Mapping[str, Any], ...]:
        """What was not restored, component by component and rank by rank."""
        return tuple(self.evidence("state_restored").get("findings", ()))

    def those(self, code: str) -> list[Mapping[str, Any]]:
        """The findings with this code."""
        return [one for one in self.findings if code == one["code"] or code in one.get("more", ())]

    @cached_property
    def table(self) -> tuple[Mapping[str, Any], ...]:
        """The alignment: a row for each incarnation and rank."""
        return tuple(self.evidence("state_restored").get("table", ()))

    def family(self, *families: str) -> list[str]:
        """The codes of these families."""
        return [code for code in self.codes if FAMILIES.get(code) in families]

    @cached_property
    def resumes(self) -> tuple[Mapping[str, Any], ...]:
        """What is known of the resumes: from which step, which was the last valid one."""
        return tuple(self.evidence("resumed_from_last_valid").get("resumes", ()))


def causes_of(verdicts: Sequence[Verdict], kinds: Collection[str] = ()) -> dict[str, str]:
    """The consequences among the codes of one run, each with the code that caused it. No code is the cause of its own
    cause."""
    evidence = RunEvidence(tuple(verdicts), frozenset(kinds))
    found: dict[str, str] = {}
    for mechanism in MECHANISMS:
        for consequence, cause in mechanism(evidence):
            known = consequence in evidence.codes and cause in evidence.codes
            if known and consequence not in found and _root(found, cause) != consequence:
                found[consequence] = cause
    return {code: _root(found, code) for code in found}


def _root(found: Mapping[str, str], code: str) -> str:
    while code in found:
        code = found[code]
    return code


def wrong_numbers(one: RunEvidence) -> Iterator[Pair]:
    """A number that a fault put in and that the job took in: whatever it broke later came of that."""
    taken: list[str] = [code for code in ("nonfinite-accepted", "corruption-accepted") if code in one.codes]
    taken += [code for code in one.codes if code in TAKEN_IN and code not in taken]
    if not taken:
        return
    yield from ((code, taken[0]) for code in taken[1:])
    if NUMBERS.isdisjoint(one.kinds) and one.family("state", "data", "checkpoint") != ["poisoned-checkpoint"]:
        # Nobody put a number in: a wrong state makes one, or a damaged checkpoint has one.
        others = [code for code in one.codes if code not in TAKEN_IN]
        first = next((code for code in ("corrupt-accepted", *one.family("state", "data")) if code in others), None)
        if first is not None and (one.kinds or first == "corrupt-accepted"):
            yield taken[0], first
            return
    if not one.kinds:
        # Which fault struck is not known: it is safe to say how the job ended.
        yield from ((code, taken[0]) for code in ("model-not-restored", *ENDINGS))
        return
    # The check of the state after a resume has its own evidence, and speaks for itself.
    own = {code for check in ("state_restored", "same_data") for code in one.of(check)}
    yield from ((code, taken[0]) for code in one.codes if code not in own)


def rollbacks(one: RunEvidence) -> Iterator[Pair]:
    """One rollback to a wrong state has one cause, whatever differs there; what is saved later differs, too. Buffers
    are named last: any forward pass moves them."""
    codes = one.of("rolled_back_cleanly")
    state = [code for code in FAMILIES if code in codes and FAMILIES[code] in ("state", "data")]
    first = next(iter(sorted(state, key="buffers-not-restored".__eq__)), None)
    if first is not None:
        yield from ((code, first) for code in (*codes, "corruption-saved", "poisoned-checkpoint"))


def interrupted_saves(one: RunEvidence) -> Iterator[Pair]:
    """A verdict on a resume that failed names what was wrong with the checkpoint first, and how it ended last."""
    of_files = ("torn-checkpoint", "checkpoint-lost", "corrupt-accepted")
    for verdict in one.verdicts:
        first = next((code for code in verdict.codes if code in of_files), None)
        if first is not None and verdict.codes[0] == first:
            yield from ((code, first) for code in verdict.codes[1:] if code not in one.of("state_restored"))
    if first := next((code for code in of_files[:2] if code in one.codes), None):
        yield from ((code, first) for code in (*of_files[:2], *ENDINGS[:2]))
    if "checkpoint-lost" in one.codes:
        yield from ((code, "checkpoint-lost") for code in ("stale-checkpoint", "restarted-from-scratch"))


def accepted_files(one: RunEvidence) -> Iterator[Pair]:
    """State that was read from an altered checkpoint is that of the altered checkpoint."""
    if "corrupt-accepted" not in one.codes:
        return
    altered = one.evidence("checkpoints_faithful").get("altered", ())
    bad = {entry["incarnation"] for entry in altered}
    bad |= {each["incarnation"] for each in one.resumes if each["resumed_from"] not in each["acceptable"]}
    read = {str(key) for entry in altered for key in entry.get("keys", ())}
    for code in one.family("state", "data", "trajectory"):
        there = one.those(code)
        if not there:
            if code in ("model-not-restored", "loss-diverged", "ranks-diverged"):
                yield code, "corrupt-accepted"
        elif {each["incarnation"] for each in there} <= bad and _was_read(there, read):
            yield code, "corrupt-accepted"


def _was_read(there: Sequence[Mapping[str, Any]], read: set[str]) -> bool:
    """Whether the altered file held these components, by their names or because they match no step of the reference; or
    whether it is not known what it held. State that was lost is where it was at some step."""
    if not read or all(each.get("found") == [] for each in there):
        return True
    families = {str(each["component"]).partition(".")[0] for each in there}
    return families & set(TRAINED) != set() or any(key.partition(".")[0] in families for key in read)


def unfaithful_saves(one: RunEvidence) -> Iterator[Pair]:
    """A save that was written while the training went on holds later values: what was restored from it is later than
    the step of the save, or a mixture that no step has."""
    bad = {each["incarnation"] for each in one.those("checkpoint-unfaithful")}
    if "checkpoint-unfaithful" not in one.codes:
        return
    for code in one.family("state"):
        there = one.those(code)
        same = all(not bad or each["incarnation"] in bad for each in there)
        if same and all(map(_later, there)):
            yield code, "checkpoint-unfaithful"


def _later(one: Mapping[str, Any]) -> bool:
    found = one.get("found")
    family = str(one["component"]).partition(".")[0]
    if family not in (*TRAINED, "lr"):
        return False
    return not found if not found else min(found) > one["expected"]


def scratch(one: RunEvidence) -> Iterator[Pair]:
    """A job that begins again is at 0 in everything."""
    begun = {each["incarnation"] for each in one.resumes if each["resumed_from"] == 0}
    if "restarted-from-scratch" not in one.codes or not begun:
        return
    for code in one.family("state", "data", "trajectory"):
        there = one.those(code)
        if not there or {each["incarnation"] for each in there} <= begun:
            yield code, "restarted-from-scratch"
    yield from ((code, "restarted-from-scratch") for code in ("disk-use-grows", "exited-early"))


def some_ranks(one: RunEvidence) -> Iterator[Pair]:
    """Ranks that loaded nothing, or another checkpoint than the others, are wrong in everything at once."""
    if "ranks-diverged" in one.of("resumed_from_last_valid"):
        yield from ((code, "ranks-diverged") for code in (*one.family("state", "data"), *ENDINGS[:2]))
        altered = one.evidence("checkpoints_faithful").get("altered", ())
        if altered and all(entry.get("position_read") is not None for entry in altered):
            # Each read what had been saved, and one of them at another step.
            yield "corrupt-accepted", "ranks-diverged"
    model = {(each["incarnation"], each["rank"]) for each in one.those("model-not-restored")}
    every = {
        (row["incarnation"], row["rank"]) for row in one.table if row["incarnation"] in {index for index, _ in model}
    }
    for code in one.family("state", "data"):
        where = {(each["incarnation"], each["rank"]) for each in one.those(code)}
        if model and where and where <= model and model < every:
            yield code, "model-not-restored"


def whole_model(one: RunEvidence) -> Iterator[Pair]:
    """Buffers belong to the model's state: where both are wrong at the same resume, the model was not loaded."""
    model = {(each["incarnation"], each["rank"]) for each in one.those("model-not-restored")}
    buffers = {(each["incarnation"], each["rank"]) for each in one.those("buffers-not-restored")}
    if buffers and buffers <= model:
        yield "buffers-not-restored", "model-not-restored"


def rate_of_the_optimizer(one: RunEvidence) -> Iterator[Pair]:
    """The rate is kept with the optimizer. If it is wrong in the first step only, the schedule itself is right, and
    sets it right from the second step on."""
    optimizer = {(each["incarnation"], each["rank"]) for each in one.those("optimizer-not-restored")}
    rates = {(each["incarnation"], each["rank"]): each["step"] for each in one.those("lr-schedule-off")}
    if not rates or not rates.keys() <= optimizer:
        return
    off: dict[tuple[int, int], list[bool]] = {}
    for each in one.evidence("matches_reference").get("differences", ()):
        where = (each["incarnation"], each["rank"])
        if where in rates and each["step"] > rates[where]:
            off.setdefault(where, []).append("lr" in each["values"])
    if off.keys() == rates.keys() and not any(map(any, off.values())):
        yield "lr-schedule-off", "optimizer-not-restored"


def same_data(one: RunEvidence) -> Iterator[Pair]:
    """The position in the data is one thing, whether rows come twice, never or in another order because of it."""
    yield from ((code, one.data[0]) for code in one.data[1:])


def other_batch(one: RunEvidence) -> Iterator[Pair]:
    """A forward pass over another batch leaves other buffers and other random streams: where these match no step of
    the reference, nor does the batch, the batch is the cause. A stream that was lost is at a step of the reference."""
    batches = {(each["incarnation"], each["rank"]) for each in one.findings if each["component"] == "batch"}
    strange = {
        (each["incarnation"], each["rank"])
        for each in one.findings
        if each["component"] == "batch" and each["found"] == []
    }
    for code, places in (("buffers-not-restored", batches), ("rng-not-restored", strange)):
        there = [each for each in one.those(code) if each["component"] != "batch"]
        own = {(each["incarnation"], each["rank"]) for each in there}
        if one.data and own and own <= places and all(each["found"] == [] for each in there):
            yield code, one.data[0]


def out_of_data(one: RunEvidence) -> Iterator[Pair]:
    """A job that skips rows comes to the end of its data too early; one that ends too early leaves rows out."""
    end = one.evidence("completed")
    if "exited-early" not in one.codes or "data-skipped" not in one.data:
        return
    first = one.evidence("same_data").get("ledger", {}).get("first_skipped", {}).get("step")
    reached = min((int(step) for step in end.get("reached", {}).values()), default=None)
    if first is None or reached is None:
        return
    if first <= reached and end.get("code") == 0:
        yield "exited-early", one.data[0]
    elif first > reached:
        yield "data-skipped", "exited-early"


def other_size(one: RunEvidence) -> Iterator[Pair]:
    """With another number of ranks: if the first step already has a wrong number of samples, the batch is wrong, and
    the data and the schedule with it; if only later steps have, they ran out of data."""
    if "global-batch-changed" not in one.codes:
        return
    wrong = one.evidence("global_batch_kept").get("wrong", ())
    starts = [each["resumed_from"] for each in one.resumes if each["resumed_from"] is not None]
    at_once = not wrong or not starts or any(each["step"] - 1 in starts for each in wrong)
    if not at_once and one.data:
        yield "global-batch-changed", one.data[0]
    later = ("exited-early", "lr-schedule-off", "extra-state-not-restored", "loss-diverged")
    yield from ((code, "global-batch-changed") for code in (*one.data, *later))


def trajectory(one: RunEvidence) -> Iterator[Pair]:
    """Losses and replicas that differ are what a wrong state or wrong data look like; so are counters in a log."""
    quiet = ("disk-use-grows", "debris-left", "rng-unused-not-restored")
    first = next((code for code in one.family("state", "data", "checkpoint") if code not in quiet), None)
    if first is not None:
        yield "loss-diverged", first
        if "ranks-diverged" not in one.of("resumed_from_last_valid"):
            yield "ranks-diverged", first
    yield "log-wrong", "extra-state-not-restored"
    yield "loss-diverged", "ranks-diverged"


def leftovers(one: RunEvidence) -> Iterator[Pair]:
    """What accumulates fills the disk; a job that cannot go on did not wait out the fault either."""
    yield "disk-use-grows", "debris-left"
    yield from (("needless-restart", end) for end in (*ENDINGS, "torn-checkpoint", "checkpoint-lost"))
    yield "hang", "crash-loop"


#: In this order: the first mechanism that explains a code counts.
MECHANISMS: tuple[Callable[[RunEvidence], Iterator[Pair]], ...] = (
    rollbacks, wrong_numbers, interrupted_saves, some_ranks, accepted_files, unfaithful_saves, scratch, whole_model,
    rate_of_the_optimizer, other_size, out_of_data, same_data, other_batch, trajectory, leftovers,
)  # fmt: skip
