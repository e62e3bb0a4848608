"""No fault. An experiment that fails here would fail without any fault."""

from chaoskit import checks


def test_control(chaos, job, claims):
    """Nothing goes wrong: two uninterrupted runs are equal, and a third run equals them."""
    run = chaos.run(job)
    run.verify(checks.controls_agree(), *claims)
