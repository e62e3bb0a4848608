"""`checkpoints_faithful`: what was saved, what came back, and what no component shows."""

import pytest

from chaoskit import checks
from chaoskit.analysis.reference.reference import Reference
from chaoskit.verdict import Outcome
from tests.history_writer import Writer

check = checks.checkpoints_faithful()


def digest(text):
    return text.encode().hex().rjust(32, "0")


def content(rank, position, **other):
    told = {
        "model.a": digest(f"a@{position}"),
        "model.b": digest(f"b@{position}"),
        "progress.tokens": f"={position * 512}",
        "ema.a": digest(f"ema.a@{position}"),
        "seed": "=7",
        "saved_time": f"={position}",
        "mean_loss": f"={float(position).hex()}",
    }
    return told | other


def live(rank, position):
    return {"a": digest(f"a@{position}"), "b": digest(f"b@{position}")}


def control(**options):
    run = Writer(content=content, **options).launch().live(ends=True)
    for position in (0, 20, 40):
        run.tensors(position + 1, "model", lambda rank, at=position: live(rank, at))
    return run.exit(0).end().history()


REFERENCE = Reference.of([control(), control()])


def resumed(*, saved=content, came_back=None, off=None, until=25, base=20, path=None):
    """A kill, a resume that reads what `came_back` says, and a second life that saves what `saved` says."""
    run = Writer(content=content).launch().live(until=until).fault().died()
    run.content = saved
    run.launch().live(base=base, off=off, ends=True)
    if came_back is not None:
        run.load(path or f"step-{base}.pt", content=came_back)
    return run.exit(0).end().case(REFERENCE)


def test_a_faithful_run_passes():
    verdict = check(resumed(came_back=lambda rank: content(rank, 20)))
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence == {"saves": 6, "loads": 2}


def test_a_value_that_did_not_come_back():
    verdict = check(resumed(came_back=lambda rank: content(rank, 20, **{"model.b": "flipped"})))
    assert verdict.codes == ("checkpoint-unfaithful",)  # no fault had changed the files
    first = verdict.evidence["altered"][0]
    assert (first["rank"], first["position"], first["keys"]) == (0, 20, ("model.b",))
    assert "from the checkpoint of step 20 that differ from the saved ones: model.b" in verdict.sentence


def test_a_shard_of_another_step():
    def came_back(rank):
        return content(rank, 20 if rank else 40)

    verdict = check(resumed(until=45, base=40, came_back=came_back, off={(1, "model"): 20}))
    assert verdict.codes == ("corrupt-accepted",)
    assert "rank 1 loaded what was saved at step 20 instead of 40" in verdict.sentence
    # The same read with the right state: another file, of the best model perhaps.
    assert check(resumed(until=45, base=40, came_back=came_back, path="best.pt")).outcome is Outcome.PASS


def test_numbers_in_the_name_of_the_run_say_nothing():
    latest = "/runs/20261121-93ee20/out/latest.pt"
    run = Writer(content=content).launch().live(until=45, path=latest).fault().died()
    run.launch().live(base=40, path=latest, ends=True).load(latest, content=lambda rank: content(rank, 40))
    assert check(run.exit(0).end().case(REFERENCE)).outcome is Outcome.PASS


@pytest.mark.parametrize("path", ["/tmp/tmp20zvh/rank", "/tmp/run-20"])
def test_numbers_in_the_name_of_a_copy_elsewhere_say_nothing(path):
    """Step 20 was saved, too; what is read is what was saved at step 40."""

    def read(place):
        run = Writer(content=content).launch().live(until=45, path="/x/out/step-{}").fault().died()
        run.launch().live(base=40, ends=True).load(place, content=lambda rank: content(rank, 40))
        return check(run.exit(0).end().case(REFERENCE)).codes

    assert read(path) == ()
    assert read("/x/out/step-20") == ("corrupt-accepted",)  # there the name tells what should have come


#: Saved at twenty past five.
DATED = {20: "/x/out/11-22_17-20-33.1/state.pt", 40: "/x/out/11-22_17-20-34.9/state.pt"}


def dated(read, came_back):
    """Checkpoints that are named by the time, of which a second life reads one."""
    run = Writer(content=content).launch().live(until=45).fault().died()
    run.launch().live(base=40, ends=True).load(read, content=lambda rank: content(rank, 40, **came_back))
    for event in run.events:
        for step, name in DATED.items():
            if event.kind == "save.begin" and event["path"].startswith(f"step-{step}.pt"):
                event.data["path"] = event["path"].replace(f"step-{step}.pt", name)
    return check(run.exit(0).end().case(REFERENCE))


def test_a_date_in_a_name_is_no_step():
    """Each holds the number of the first step that was saved; so does the copy that a link leads to."""
    for read in (DATED[40], "/x/out/11-22_17-20-34.9b/state.pt"):
        assert dated(read, {}).outcome is Outcome.PASS
        assert dated(read, {"model.b": "flipped"}).codes == ("checkpoint-unfaithful",)


def test_the_name_of_one_save_tells_what_should_have_come_whatever_numbers_it_holds():
    verdict = dated(DATED[20], {})
    assert verdict.codes == ("corrupt-accepted",) and "20" in verdict.sentence


def test_saves_that_nobody_saw_are_no_pass_where_the_job_resumed():
    run = Writer(content=content).launch().live(until=25, saves=False).fault().died()
    verdict = check(run.launch().live(base=20, saves=False, ends=True).exit(0).end().case(REFERENCE))
    assert (verdict.outcome, verdict.codes) == (Outcome.INCONCLUSIVE, ("probe-blind",))


def test_a_file_that_was_refused_and_replaced_does_no_harm():
    case = resumed(came_back=lambda rank: content(rank, 20, **{"model.b": "flipped"}))
    good = Writer(content=content).launch().live(until=25).fault().died()
    good.launch().live(base=20, ends=True)
    good.load("bad.pt", content=lambda rank: content(rank, 20, **{"model.b": "flipped"}))
    good.load("good.pt", content=lambda rank: content(rank, 20))
    assert check(good.exit(0).end().case(REFERENCE)).outcome is Outcome.PASS
    assert check(case).outcome is Outcome.FAIL


def test_a_file_that_is_no_checkpoint_is_left_alone():
    verdict = check(resumed(came_back=lambda rank: {"vocabulary": "v", "seed": "=8"}))
    assert verdict.outcome is Outcome.PASS


def test_a_counter_that_began_anew():
    def second(rank, position):
        return content(rank, position, **{"progress.tokens": f"={(position - 20) * 512}"})

    verdict = check(resumed(saved=second))
    assert verdict.codes == ("extra-state-not-restored",)
    assert "progress.tokens in the checkpoint of step 40 differs from the reference (10240 instead of 20480)" in (
        verdict.sentence
    )
    assert "step 60" not in verdict.sentence


def test_an_average_kept_by_hand():
    verdict = check(resumed(saved=lambda rank, at: content(rank, at, **{"ema.a": digest(f"fresh@{at}")})))
    assert verdict.codes == ("ema-not-restored",)


def test_a_save_that_captured_later_values():
    verdict = check(resumed(saved=lambda rank, at: content(rank, at, **{"model.a": digest(f"a@{at + 1}")})))
    assert verdict.codes == ("checkpoint-unfaithful",)
    first = verdict.evidence["unlike"][0]
    assert (first["rank"], first["position"], first["keys"], first["live"]) == (0, 40, ("model.a",), True)


@pytest.mark.parametrize("key", ["saved_time", "seed", "mean_loss"])
def test_clocks_and_constants_and_means_say_nothing(key):
    verdict = check(resumed(saved=lambda rank, at: content(rank, at, **{key: f"=9{at}"})))
    assert verdict.outcome is Outcome.PASS


def test_a_run_that_had_parted_is_for_other_checks():
    verdict = check(resumed(off={"optimizer": 0}, saved=lambda rank, at: content(rank, at, **{"ema.a": "x"})))
    assert verdict.outcome is Outcome.PASS


def test_saves_that_were_not_seen_into_are_no_pass():
    run = Writer().launch().live(until=25).fault().died().launch().live(base=20, ends=True).exit(0).end()
    assert check(run.case()).codes == ("probe-blind",)


def test_without_saves_there_is_nothing_wrong():
    run = Writer().launch().live(saves=False, ends=True).exit(0).end()
    assert check(run.case()).outcome is Outcome.PASS


# What is saved once.


def exported(run, base=0, **values):
    """A file that rank 0 saves at the end, and nobody resumes from."""
    told = {"a": digest("a@60"), "count": "=60", "start_step": "=0", "rng_state": digest("rng")}
    call = {"id": 99, "n": 60 - base}
    source = f"rank-0-{run.lives}"
    run.say("save.begin", source, **call, path="out/final.pt", api="torch.save", full=False, content=told | values)
    return run.say("save.end", source, **call, ok=True)


def exporting(relaunched=None, *, reference=None, content=content):
    """A kill, a resume, and the end that saves what `relaunched` says instead of what the controls do."""

    def until_the_end():
        run = Writer(content=content).launch().live()
        for position in (0, 20, 40):
            run.tensors(position + 1, "model", lambda rank, at=position: live(rank, at))
        return exported(run, **reference or {}).ended().exit(0).end().history()

    run = Writer(content=content).launch().live(until=25).fault().died().launch().live(base=20)
    exported(run, base=20, **{**(reference or {}), **(relaunched or {})}).ended().exit(0).end()
    return check(run.case(Reference.of([until_the_end(), until_the_end()])))


def test_an_average_that_is_exported_once_and_is_in_no_checkpoint():
    verdict = exporting({"a": digest("a averaged")})
    assert verdict.codes == ("ema-not-restored",)  # it is named like a parameter, and is none
    (one,) = verdict.evidence["unlike"]
    assert (one["keys"], one["once"], one["position"]) == (("a",), "final.pt", 60)
    assert exporting({"ema.x": digest("1")}, reference={"ema.x": digest("2")}).codes == ("ema-not-restored",)
    assert exporting({"x": digest("1")}, reference={"x": digest("2")}).codes == ("extra-state-not-restored",)
    assert exporting({"count": "=40"}).codes == ("extra-state-not-restored",)


def test_an_export_that_is_right_or_tells_of_its_process():
    assert exporting().outcome is Outcome.PASS
    assert exporting({"start_step": "=20", "rng_state": digest("more")}).outcome is Outcome.PASS
