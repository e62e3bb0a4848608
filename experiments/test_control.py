"""Nothing is broken. What fails here would fail without any fault."""

from chaoskit import checks


def test_control(chaos, job, claims):
    """Nothing goes wrong: two uninterrupted runs agree, and a third one equals them."""
    run = chaos.run(job)
    run.verify(checks.controls_agree(), *claims)
