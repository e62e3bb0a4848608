"""A step with another number of passes: what follows from that is not lost."""

import pytest

from chaoskit.analysis.diagnosis import diagnose
from tests.history_writer import Writer


def resumed(*, buffers, passes):
    """The run resumes at 20 with other buffers and another batch; its first step has so many backward passes."""
    run = Writer()
    run.launch().live(until=25).fault("kill rank 1 at step 26").died()
    before = len(run.events)
    run.launch().live(base=20, off={"buffers": buffers, "batch": "half"}).exit(0).end("finished")
    for rank in (0, 1):
        first = next(e for e in run.events[before:] if e.kind == "step" and e.source.startswith(f"rank-{rank}"))
        first.data["losses"] = first.data["losses"] * passes
    return {one.component for one in diagnose(run.case()).findings if one.step == 21}


@pytest.mark.parametrize(
    ("buffers", "passes", "named"),
    [("mid-step", 2, False), ("mid-step", 1, True), (0, 2, True)],
    ids=["saved between two passes", "as many passes", "fresh ones"],
)
def test_buffers_from_the_middle_of_a_step_are_not_lost(buffers, passes, named):
    found = resumed(buffers=buffers, passes=passes)
    assert "batch" in found and ("buffers" in found) is named
