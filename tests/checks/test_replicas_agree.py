"""`replicas_agree`: replicas that are no longer equal, with and without a reference."""

from chaoskit import checks
from chaoskit.checks import Case
from chaoskit.verdict import Outcome
from tests.checks.corrupted_runs import off, unnoticed
from tests.history_writer import Writer

check = checks.replicas_agree()


def whole(**options):
    return Writer(ranks=options.pop("ranks", 2)).launch().live(ends=True, **options).exit(0).end()


def test_equal_replicas_pass_without_a_reference():
    verdict = check(Case(whole().history()))
    assert verdict.outcome is Outcome.PASS
    assert verdict.sentence == "the replicas of ranks 0, 1 were equal in each of 60 steps"


def test_of_two_the_one_that_is_not_the_references_is_named():
    run = whole(patch=off(31, ranks=(1,), names=("model",)))
    run.tensors(31, "model", lambda rank: {"embed.weight": "0", "head.weight": str(rank)})
    verdict = check(run.case())
    assert verdict.codes == ("ranks-diverged",)
    assert verdict.sentence == (
        "in step 31 rank 1 differs from the other replicas (and from the reference) in model (head.weight)"
    )
    assert (verdict.evidence["step"], verdict.evidence["ranks"]) == (31, [1])


def test_without_a_reference_the_one_that_was_struck_is_named():
    verdict = check(Case(unnoticed(ranks=(1,)).history()))
    assert (
        "in step 26 rank 1 differs from the other replicas (the one that the fault struck) in model" in verdict.sentence
    )


def test_without_either_both_are_named():
    verdict = check(Case(whole(patch=off(31, ranks=(0,), names=("model",))).history()))
    assert verdict.sentence == "in step 31 ranks 0 and 1 differ from each other in model"
    assert verdict.evidence["ranks"] == [0, 1]


def test_of_several_the_minority_is_named():
    verdict = check(Case(whole(ranks=4, patch=off(31, ranks=(2,), names=("model", "optimizer"))).history()))
    assert (
        "in step 31 rank 2 differs from the other replicas (the minority) in model, optimizer" in verdict.sentence
    )


def test_a_rank_that_died_before_is_not_asked():
    writer = whole(ranks=3, patch=off(31, ranks=(1,), names=("model",)))
    writer.events = [e for e in writer.events if not (e.source.startswith("rank-2") and e.data.get("n", 0) > 20)]
    verdict = check(writer.case())
    assert (
        "in step 31 rank 1 differs from the other replicas (and from the reference) in model" in verdict.sentence
    )


def test_tensors_that_were_recorded_later_are_told_as_such():
    run = whole(patch=off(31, ranks=(1,), names=("model",)))
    run.tensors(33, "model", lambda rank: {"head.weight": str(rank)})
    assert check(run.case()).sentence.endswith("in model (head.weight), recorded 2 steps later")


def test_buffers_are_each_ranks_own():
    assert check(whole(patch=off(31, ranks=(1,), names=("buffers",))).case()).outcome is Outcome.PASS


def test_an_optimizer_that_is_sharded_from_the_first_is_no_replica():
    assert check(whole(patch=off(2, ranks=(1,), names=("optimizer",))).case()).outcome is Outcome.PASS


def test_a_life_after_the_first_is_looked_at_too():
    run = Writer().launch().live(until=25).fault().died()
    run.launch().live(base=20, patch=off(41, ranks=(1,), names=("model",)), ends=True).exit(0).end()
    assert check(run.case()).evidence["step"] == 41


def test_shards_are_no_replicas():
    verdict = check(whole(patch=off(1, ranks=(1,), names=("model",))).case())
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))


def test_the_job_itself_says_which_ranks_hold_replicas():
    run = whole(patch=off(1, ranks=(1,), names=("model",)))
    for rank in (0, 1):
        run.say("replicas", f"rank-{rank}-1", ranks=[0, 1])
    verdict = check(run.case())
    assert (verdict.codes, verdict.evidence["step"]) == (("ranks-diverged",), 1)


def test_nothing_seen_is_nothing_claimed():
    assert check(Case(Writer().launch().exit(1).end("gave-up").history())).codes == ("probe-blind",)
