"""`log_right`: what the job printed beside what it printed uninterrupted."""

import math

import pytest

from chaoskit.analysis.case import Case
from chaoskit.analysis.reference.reference import Reference
from chaoskit.checks import judge, log_right
from chaoskit.verdict import Outcome
from tests.history_writer import Writer, loss, printed

check = log_right()
WRONG = math.nextafter(float.fromhex(loss(1, 41)), 2.0).hex()


def control(lines=range(1, 61), **options):
    run = Writer().launch().live(ends=True, **options)
    return run.log(lines).exit(0).end().history()


def reference(*lines, **options):
    return Reference.of([control(each, **options) for each in lines or [range(1, 61)] * 2])


def struck(*, at=24):
    """Killed after step 24, with a log up to there."""
    return Writer().launch().live(until=at).log(range(1, at + 1)).fault().died().launch()


def resumed(lines=range(21, 61), **options):
    return struck().live(base=20, ends=True, **options).log(lines).exit(0).end()


def judged(run, against=None):
    return check(run.case(against or reference()))


def test_a_log_that_goes_on_where_the_training_does_passes():
    verdict = judged(resumed())
    assert verdict.outcome is Outcome.PASS
    assert (
        verdict.sentence == "64 printed losses equal those of the uninterrupted runs (printed digits were compared)"
    )


def test_exact_losses_are_no_digits():
    lines = [(step, loss(0, step)) for step in range(1, 61)]
    run = Writer().launch().live(until=24).log(lines[:24]).fault().died().launch()
    run.live(base=20, ends=True).log(lines[20:]).exit(0).end()
    verdict = judged(run, reference(lines, lines))
    assert (verdict.outcome, verdict.sentence[-5:]) == (Outcome.PASS, " runs")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [21, (21, "9.0"), *range(22, 61)],
            f"step 21 is printed again: {printed(21)} in line 1 of rank 0's log of launch 1, 9.0 in line 2 of rank 0's",
        ),
        ([21, 22, 21, *range(23, 61)], "step 21 is printed again"),
        (
            [22, 21, *range(23, 61)],
            f"step 21 ({printed(21)}, line 2 of rank 0's log of launch 1) comes after step 22",
        ),
        (
            [21, (22, "0.5"), *range(23, 61)],
            f"step 22 has loss 0.5 in line 2 of rank 0's log of launch 1, but uninterrupted runs print {printed(22)}",
        ),
        (
            [*range(21, 30), *range(31, 61)],
            f"step 30, for which uninterrupted runs print {printed(30)}, is missing before line 10 of rank 0's log "
            "of launch 1, between 29 and 31",
        ),
        (range(21, 60), f"step 60, for which uninterrupted runs print {printed(60)}, is missing in the whole log"),
        ([], "step 60"),
        (
            [(step + 100, printed(step)) for step in range(21, 61)],
            "uninterrupted runs print no such step, and 40 more",
        ),
        ([(step - 20, printed(step)) for step in range(21, 61)], "step 1 has loss"),
    ],
)
def test_a_log_that_is_wrong_while_the_training_is_right(lines, said):
    verdict = judged(resumed(lines))
    assert verdict.codes == ("log-wrong",)
    assert said in verdict.sentence
    assert "(printed digits were compared)" in verdict.sentence


def test_what_a_kill_took_with_it_is_not_missing():
    """The lines before the kill, and all of them."""
    run = Writer().launch().live(until=24).log(range(1, 19)).fault().died().launch()
    assert judged(run.live(base=20, ends=True).log(range(21, 61)).exit(0).end()).outcome is Outcome.PASS
    run = Writer().launch().live().log(range(1, 59)).fault().died().launch()
    assert judged(run.live(base=60, ends=True).exit(0).end()).outcome is Outcome.PASS


def test_a_log_that_tells_of_wrong_training_is_right():
    wrong = {(0, step): (9.0 + step).hex() for step in range(41, 61)}
    verdict = judged(resumed([*range(21, 41), *((step, f"{9 + step}.0") for step in range(41, 61))], losses=wrong))
    assert verdict.outcome is Outcome.PASS
    assert verdict.sentence.startswith("the log agrees with the training;")
    assert "step 41 has loss 50.0" in verdict.sentence
    # Before the training went wrong the log had no excuse.
    early = [21, (22, "0.5"), *range(23, 41), *((step, f"{9 + step}.0") for step in range(41, 61))]
    verdict = judged(resumed(early, losses=wrong))
    assert (verdict.codes, "step 22" in verdict.sentence) == (("log-wrong",), True)


def test_a_state_that_matches_nothing_excuses_its_launch_and_no_other():
    off = dict.fromkeys(("model", "optimizer", "lr", "rng.torch", "batch", "ema", "buffers", "scaler"), "torn")
    lines = [(step, "9.9") for step in range(21, 61)]
    assert judged(resumed(lines, off=off)).outcome is Outcome.PASS
    run = Writer().launch().live(until=24).log([(1, "9.9"), *range(2, 25)]).fault().died().launch()
    run.live(base=20, off=off, ends=True).log(lines).exit(0).end()
    assert judged(run).codes == ("log-wrong",)


def test_without_a_log_there_is_nothing_to_say():
    bare = Reference.of([Writer().control().history()] * 2)
    verdict = judged(Writer().control(), bare)
    assert verdict.codes == ("probe-blind",)
    assert "there is no log to compare" in verdict.sentence
    assert check(Case(resumed().history(), None)).codes == ("reference-failed",)
    silent = Writer().launch().live(until=24).fault().died().launch().live(base=20).died().end("gave-up")
    assert judged(silent).codes == ("probe-blind",)


@pytest.mark.parametrize("lines", [[1, 1, 2], [1, 2, 1], [2, 1]])
def test_a_pattern_that_finds_no_line_a_step_is_no_measure(lines):
    verdict = judged(resumed(), reference(lines, lines))
    assert verdict.codes == ("probe-blind",)
    assert "log_regex must find one line a step" in verdict.sentence


@pytest.mark.parametrize("other", [range(1, 60), [*range(1, 60), (60, "7")]])
def test_controls_that_print_different_things(other):
    verdict = judged(resumed(), reference(range(1, 61), other))
    assert verdict.codes == ("not-deterministic",)
    assert f"step 60: {printed(60)} and {'7' if len(other) == 60 else 'nothing'}" in verdict.sentence


def test_digits_prove_nothing_where_the_bits_are_not_determined():
    apart = Reference.of([control(), control(losses={(1, 41): WRONG})])
    assert judged(resumed(), apart).outcome is Outcome.PASS
    assert judged(resumed([21, (22, "0.5"), *range(23, 61)]), apart).codes == ("not-deterministic",)
    assert judged(resumed([21, (22, "0.5"), 22, *range(23, 61)]), apart).codes == ("log-wrong",)


def test_lines_every_ten_steps():
    tens = range(10, 61, 10)
    run = Writer().launch().live(until=24).log([10, 20]).fault().died().launch()
    run.live(base=20, ends=True).log([30, 40, 50, 60]).exit(0).end()
    assert judged(run, reference(tens, tens)).outcome is Outcome.PASS
    wrong = {(0, 33): WRONG}
    run = Writer().launch().live(until=24).log([10, 20]).fault().died().launch()
    run.live(base=20, losses=wrong, ends=True).log([30, (40, "1.0"), 50, 60]).exit(0).end()
    assert judged(run, reference(tens, tens)).sentence.startswith("the log agrees with the training;")


def test_steps_that_are_counted_from_zero_or_in_other_units():
    zero = [(step - 1, printed(step)) for step in range(1, 61)]
    wrong = {(0, 41): WRONG}
    run = Writer().launch().live(until=24).log(zero[:24]).fault().died().launch()
    run.live(base=20, losses=wrong, ends=True).log([*zero[20:40], (40, "9.9"), *zero[41:]]).exit(0).end()
    assert judged(run, reference(zero, zero)).outcome is Outcome.PASS
    few = [(step // 10, printed(step)) for step in range(10, 61, 10)]
    run = Writer().launch().live(until=24).log(few[:2]).fault().died().launch()
    run.live(base=20, losses=wrong, ends=True).log([few[2], few[3], (5, "9.9"), few[5]]).exit(0).end()
    assert judged(run, reference(few, few)).outcome is Outcome.PASS


def test_a_restart_inside_the_launch_goes_back_once():
    def run(lines, by="rank 0"):
        run = Writer().launch().live(until=24).fault().restarted().live(base=20, ends=True)
        for event in Writer().launch().log(lines, by=by).events[1:]:
            # From a log that does not say which restart wrote it.
            run.say("log", **{**event.data, "restart": None})
        return judged(run.exit(0).end())

    assert run([*range(1, 25), *range(21, 61)]).outcome is Outcome.PASS
    assert "step 21 is printed again" in run([*range(1, 25), 21, *range(21, 61)]).sentence
    by_rank = Writer().launch().live(until=24).log(range(1, 25)).fault().restarted()
    by_rank.live(base=20, ends=True).log(range(21, 61)).exit(0).end()
    assert judged(by_rank).outcome is Outcome.PASS


def test_every_rank_has_its_own_log():
    def both(run, lines, others):
        return run.log(lines).log(others, by="rank 1")

    theirs = [(step, f"{step}.1") for step in range(1, 61)]
    controls = [
        both(Writer().launch().live(ends=True), range(1, 61), theirs).exit(0).end().history() for _ in range(2)
    ]
    run = both(Writer().launch().live(until=24), range(1, 25), theirs[:24]).fault().died().launch()
    run = both(run.live(base=20, ends=True), range(21, 61), [(21, "0.1"), *theirs[21:]]).exit(0).end()
    verdict = judged(run, Reference.of(controls))
    assert verdict.codes == ("log-wrong",)
    assert "line 1 of rank 1's log of launch 1" in verdict.sentence


def document(lines, *, whole=range(1, 61), end="finished"):
    def control():
        return Writer().launch().live(ends=True).exit(0).end().log(whole, by="", document=True).history()

    run = Writer().launch().live(until=24).fault().died().launch().live(base=20, ends=True).exit(0).end(end)
    return judged(run.log(lines, by="", document=True), Reference.of([control(), control()]))


def test_a_document_has_each_step_once():
    assert document(range(1, 61)).outcome is Outcome.PASS
    verdict = document([*range(1, 25), *range(21, 61)])
    assert verdict.codes == ("log-wrong",)
    assert (
        f"step 21 is printed again: {printed(21)} in line 21 of the log, {printed(21)} in line 25 of the log"
        in (verdict.sentence)
    )
    assert "step 1, for which" in document(range(21, 61)).sentence
    assert "step 60, for which" in document(range(1, 60)).sentence
    assert document([]).codes == ("log-wrong",)
    assert document(range(1, 60), end="gave-up").outcome is Outcome.PASS
    assert document([*range(1, 30), *range(31, 50)], end="gave-up").codes == ("log-wrong",)


def test_without_a_fault_that_was_seen_it_says_nothing():
    run = Writer().launch().live(until=24).log(range(1, 25)).fault(seen=False).died().launch()
    run.live(base=20, ends=True).log([21, *range(21, 61)]).exit(0).end()
    assert judge(run.case(reference()), [check])[1].codes == ("fault-not-observed",)


def cut(run):
    return run.say("log.cut", file="logs/launch-0.log", left_out=12_345_678, limit=32 << 20)


def test_a_log_that_was_cut_proves_nothing():
    verdict = judged(cut(resumed()).end())
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))
    assert verdict.sentence == (
        "lines are missing: 12,345,678 bytes of logs/launch-0.log are left out, because chaoskit keeps 32 MiB of a "
        "log; print less, or let the job keep a log below {out} (log_file)"
    )


def test_a_log_of_the_job_s_own_is_never_cut():
    control = Writer().launch().live(ends=True).log(range(1, 61), by="", document=True).exit(0).end().history()
    run = struck_document().live(base=20, ends=True).exit(0)
    assert judged(cut(run).end(), Reference.of([control, control])).outcome is Outcome.PASS


def struck_document():
    run = Writer().launch().live(until=24).log(range(1, 61), by="", document=True)
    return run.fault().died().launch()
