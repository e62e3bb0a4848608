"""From which kept state the run that shows whether windows may be used begins, and how far it goes."""

from pathlib import Path

import pytest

from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.windows.kept_outs import OutState
from chaoskit.engine.windows.late_run import _enough, _to_begin_from
from tests.history_writer import Writer


def begun(*, steps, epoch=None):
    """The save of the state, and the step that the run goes on to; None if that is its end."""
    epochs = range(0, steps, epoch) if epoch else ()
    of = Reference((Writer(steps=steps, every=10, ranks=1, names=("model",), epochs=epochs).control().history(),))
    kept = [save for save in of.saves if save + 2 <= steps]
    chosen = _to_begin_from([OutState(Path(), "out", save, save + 1, 0.0, 0, {}) for save in kept], of)
    least = _enough(chosen, of)
    return chosen.save, None if least is None else chosen.save + least


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"steps": 600, "epoch": 20}, (10, 106)),
        ({"steps": 600, "epoch": 200}, (190, 400)),
        ({"steps": 600}, (400, None)),
        ({"steps": 180}, (80, None)),
        ({"steps": 60, "epoch": 20}, (10, None)),
        ({"steps": 60}, (10, None)),
    ],
    ids=[
        "many epochs",
        "long epochs",
        "one epoch",
        "a third is less than it takes",
        "a short job",
        "of one epoch",
    ],
)
def test_it_takes_as_few_steps_as_show_enough(job, expected):
    assert begun(**job) == expected
