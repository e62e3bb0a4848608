"""When a job whose numbers are corrupted is taken to hang: once it records nothing any more, however long it trains."""

import threading
import time
from types import SimpleNamespace

import pytest

from chaoskit.studies.sdc import slot as module
from chaoskit.studies.sdc.slot import InjectionSlot
from tests.history_writer import Writer


class Recording:
    """An environment whose ranks record something for `seconds`, and report nothing."""

    def __init__(self, seconds):
        self._until = time.monotonic() + seconds

    def wait(self, seconds):
        time.sleep(seconds)
        return []

    def said(self):
        return int(1000 * min(time.monotonic(), self._until))

    def activity(self):
        raise AssertionError("not asked for")


@pytest.fixture
def of(monkeypatch):
    for name, value in (("FLOOR", 0.2), ("PACE", 0.0), ("LOOK_EVERY", 0.02), ("POLL_EVERY", 0.01)):
        monkeypatch.setattr(module, name, value)

    def make(env, *, seconds):
        made = InjectionSlot.__new__(InjectionSlot)
        reference = Writer(every=10).case().reference
        reference = SimpleNamespace(controls=reference.controls, world_size=2, seconds=seconds)
        made._env, made._subject, made._over = env, SimpleNamespace(reference=reference), threading.Event()
        made._launch, made._numbers = 1, {}
        return made

    return make


def followed(slot):
    """For how many seconds a launch is followed that never reaches its first window, and how it ended."""
    trace = SimpleNamespace(whole=lambda *_: False, seen={1: 2}, end=None, displaced=False)
    begun = time.monotonic()
    (trial,) = slot._follow([SimpleNamespace(trace=trace, window=None, injection=None)], lambda *_: None)
    return time.monotonic() - begun, trial.trace.end


def test_a_job_that_records_is_alive_and_one_that_does_not_hangs(of):
    seconds, end = followed(of(Recording(0.6), seconds=10_000.0))
    assert end.hung and 0.7 < seconds < 10.0


def test_where_nothing_shows_what_it_records_it_has_the_time_of_a_whole_run(of, monkeypatch):
    made = of(SimpleNamespace(wait=Recording(0).wait), seconds=0.4)
    assert made._patience() == pytest.approx(1.0)
    assert of(Recording(0), seconds=0.4)._patience() == pytest.approx(0.2)
