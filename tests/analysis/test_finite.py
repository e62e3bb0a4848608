"""`require_finite`: an uninterrupted run that is not finite is no reference; what is no number for a while may be."""

import pytest

from chaoskit.analysis.reference.reference import Reference
from chaoskit.errors import CODES, ExitCode, ReferenceFailed
from tests.history_writer import Writer, killed, loss

NAN, INF = float("nan").hex(), float("inf").hex()


def control(*, losses=None, nonfinite=None, steps=12):
    """An uninterrupted run; `losses` and `nonfinite` say by step what is not as usual, on both ranks."""
    bad = {(rank, step): value for step, value in (losses or {}).items() for rank in (0, 1)}
    run = Writer(steps=steps, every=4, tell_loss=lambda rank, step: bad.get((rank, step), loss(rank, step)))
    run.launch().live(ends=True).exit(0).end()
    for event in run.events:
        if event.kind == "step" and event["n"] in (nonfinite or {}):
            event.data["nonfinite"] = list(nonfinite[event["n"]])
    return run.history()


def refused(**story):
    with pytest.raises(ReferenceFailed) as caught:
        Reference.of([control(**story), control(**story)])
    assert (caught.value.code, caught.value.exit_code) == ("reference-nonfinite", ExitCode.INCONCLUSIVE)
    return str(caught.value)


def test_the_code_is_documented():
    assert "NaN" in CODES["reference-nonfinite"]


def test_losses_that_are_no_numbers_to_the_end():
    assert "the loss of rank 0 is nan from step 1 to the last" in refused(losses=dict.fromkeys(range(1, 13), NAN))
    assert "from step 10 to the last" in refused(losses=dict.fromkeys(range(10, 13), INF))
    assert "from step 1 to the last" in refused(losses={1: NAN}, steps=1)


def test_parameters_that_are_no_numbers():
    told = refused(losses={6: NAN}, nonfinite={7: ["model", "optimizer"]})
    assert "the parameters of rank 0 hold NaN or infinity when step 7 begins; its loss was nan at step 6" in told
    assert "when step 8 begins" in refused(nonfinite={8: ["model"]})


@pytest.mark.parametrize(
    "story",
    [
        {},
        {"losses": {6: NAN}, "nonfinite": {7: [], 8: []}},  # a guard drops a batch
        {"losses": {1: INF, 2: INF}, "nonfinite": {2: [], 3: []}},  # a scaler looks for its scale
        {"losses": {11: NAN, 12: NAN}, "nonfinite": {12: []}},  # as many as a guard may drop at the end
        {"nonfinite": {1: ["masks"], 8: ["masks"]}},
        {"losses": {step: f"{loss(0, step)} {NAN}" for step in range(1, 13)}},  # a head without a target
        {"losses": dict.fromkeys(range(1, 13), "tensor:00")},
        {"nonfinite": {8: ["optimizer"]}},
    ],
)
def test_what_trains_on_numbers_all_the_same(story):
    assert Reference.of([control(**story), control(**story)]).steps == 12


def test_a_stored_run_whose_reference_is_not_finite_is_never_a_pass():
    from chaoskit import checks
    from chaoskit.checks import Case
    from tests.claims import CLAIMS

    case = Case(killed().history(), None)
    assert not any(check(case).outcome == "pass" for check in CLAIMS if check.name != "no_orphans")
    assert checks.stays_finite()(case).codes == ("reference-failed",)
