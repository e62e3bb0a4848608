"""Which controls are run, and how each is launched: none, two, a third that is cold, or as many as show the spread."""

from __future__ import annotations

import json
import sys

import pytest

from chaoskit import Job
from chaoskit.engine import reference_maker
from chaoskit.engine.reference_maker import ReferenceMaker
from chaoskit.engine.run_store import Store
from chaoskit.errors import CannotWarm, ReferenceFailed
from tests.engine.fake_faults import Record
from tests.history_writer import Writer


class Controls:
    """Stands for `execute`: writes the record of a control. `trains` gives the loss of the first step by the number of
    the control and whether it is warm; a warm control ends as `warm_ends`, one whose ranks wait for their states to be
    kept as `waiting_ends`, with `waiting` as its first loss. What was asked for is in `ran`."""

    def __init__(
        self, trains=lambda number, warm: "0x1p+0", warm_ends="finished", waiting="0x1p+0", waiting_ends="finished"
    ):
        self.trains, self.warm_ends, self.ran = trains, warm_ends, []
        self.waiting, self.waiting_ends = waiting, waiting_ends

    def __call__(self, run_dir, job, *, mode, learning=False, keeper=None, **_):
        number = len(self.ran)
        self.ran.append(
            ("warm" if mode.warm else "cold") + (" learning" if learning else "") + (" keeping" if keeper else "")
        )
        writer = Writer(ranks=1, steps=24, every=4).launch()
        writer.say("launch.how", launch=0, how="warm" if mode.warm else "cold")
        loss = self.waiting if keeper else self.trains(number, mode.warm)
        writer.live(ends=True, losses={(0, 1): loss}).exit(0).end()
        sources = {}
        for event in writer.events:
            sources.setdefault(event.source, []).append(event)
        if learning:
            modules = {"names": ["numpy"], "captures": [], "threads": "1"}
            sources["rank-0-99"] = [type(writer.events[0])("modules", 0.0, "rank-0-99", modules)]
        for name, own in sources.items():
            lines = [
                json.dumps({"i": i, "t": e.t, "e": e.kind, **e.data, "forked": mode.warm})
                for i, e in enumerate(own)
            ]
            (run_dir / "events" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        return self.waiting_ends if keeper else self.warm_ends if mode.warm else "finished"


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Make the reference of a job whose controls run like that; its launch and the phases are free to choose."""
    (tmp_path / "train.py").write_text("")

    def made(controls, *, launch="auto", count=5, windows="never"):
        monkeypatch.setattr(reference_maker, "execute", controls)
        job = Job.from_command([sys.executable, "train.py", "{out}"], cwd=str(tmp_path), controls=count)
        maker = ReferenceMaker(
            store=Store(tmp_path / "store"), environment="local", launch=launch, progress=Record(), windows=windows
        )
        return maker.reference(job)

    return made


def by_number(number, warm):
    return float(number + 1).hex()


def by_launch(number, warm):
    return float(2 if warm else 1).hex()


def test_two_equal_controls_are_enough_and_are_used_again(make):
    controls = Controls()
    reference = make(controls)
    assert controls.ran == ["cold learning", "warm"]
    assert reference.deterministic and reference.mode["warm"] and reference.mode["modules"] == ["numpy"]
    assert make(controls).digest == reference.digest and len(controls.ran) == 2


def test_cold_controls_learn_nothing(make):
    controls = Controls()
    assert not make(controls, launch="cold").mode["warm"] and controls.ran == ["cold", "cold"]


def test_a_third_cold_control_that_equals_the_first_blames_the_warm_launch(make):
    controls = Controls(by_launch)
    reference = make(controls)
    assert controls.ran == ["cold learning", "warm", "cold"]
    assert reference.deterministic and len(reference.controls) == 2 and not reference.mode["warm"]
    assert "step 1, rank 0" in reference.mode["reason"]
    with pytest.raises(CannotWarm, match="step 1, rank 0"):
        make(Controls(by_launch), launch="warm")


def test_of_a_job_that_differs_by_itself_more_controls_show_the_spread(make):
    controls = Controls(by_number)
    reference = make(controls)
    assert controls.ran == ["cold learning", "warm", "cold", "warm", "warm"]
    assert not reference.deterministic and len(reference.controls) == 5 and reference.mode["warm"]
    assert len(make(controls).controls) == 5 and len(controls.ran) == 5
    # More are wanted than are kept: they are all made anew.
    make(controls, count=6)
    assert len(controls.ran) == 11


def test_two_controls_are_all_where_no_spread_is_wanted(make):
    controls = Controls(by_number)
    assert not make(controls, count=2).deterministic and len(controls.ran) == 2


def test_a_warm_control_that_fails_is_made_again_cold(make):
    controls = Controls(warm_ends="gave-up")
    reference = make(controls)
    assert controls.ran == ["cold learning", "warm", "cold"] and "failed" in reference.mode["reason"]
    assert "before" not in reference.mode["reason"]
    with pytest.raises(ReferenceFailed):
        make(Controls(warm_ends="gave-up"), launch="warm")


def test_the_second_control_keeps_states_for_windows(make):
    controls = Controls()
    assert make(controls, windows="always").deterministic and controls.ran == ["cold learning", "warm keeping"]
    assert make(controls, windows="never").deterministic and len(controls.ran) == 2


@pytest.mark.parametrize("how", [{"waiting": "0x1p+3"}, {"waiting_ends": "gave-up"}], ids=["differs", "fails"])
def test_where_it_differs_it_is_made_again_without_waiting(make, how):
    """A job that does something else because its ranks wait is no job that is not deterministic."""
    controls = Controls(**how)
    assert make(controls, windows="always").deterministic
    assert controls.ran == ["cold learning", "warm keeping", "warm"]
