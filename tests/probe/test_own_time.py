"""The time in which a rank has work, and not that in which it waits for others."""

import threading
import time

import pytest

from chaoskit.probe import own_time
from chaoskit.probe.own_time import OwnTime


def spin(seconds):
    """Keep this thread at work for so much processor time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.fixture
def own():
    if own_time._busy() is None:
        pytest.skip("this kernel does not count for how long a thread waits for a processor (CONFIG_SCHED_INFO)")
    return OwnTime()


def test_work_counts_and_sleep_does_not(own):
    own.begins()
    spin(0.05)
    threading.Event().wait(0.3)
    own.ends()
    busy = own.seconds
    assert busy >= 0.05
    own.begins()
    own.ends()
    assert own.seconds < busy


def test_waiting_for_data_is_work(own):
    own.begins()
    own.fetches()
    time.sleep(0.2)
    own.fetched()
    own.ends()
    assert own.seconds >= 0.19


def test_the_first_step_has_no_beginning(own):
    own.ends()
    assert own.seconds is None
    own.begins()
    own.ends()
    assert own.seconds is not None
    own.ends()
    assert own.seconds is None, "what came between two steps was counted twice"


def test_with_an_accelerator_it_is_not_known(own, monkeypatch):
    own.begins()
    monkeypatch.setattr(own_time, "_accelerated", lambda: True)
    own.ends()
    assert own.seconds is None


def test_a_kernel_that_does_not_count(monkeypatch):
    monkeypatch.setattr(own_time, "_busy", lambda: None)
    own = OwnTime()
    own.begins()
    own.fetches()
    own.fetched()
    own.ends()
    assert own.seconds is None
