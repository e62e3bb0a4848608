"""Passing errors are repeated within a limit of time; others are raised at once."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes.cluster_error import ClusterError
from chaoskit.environments.kubernetes.retries import retried


class Attempts:
    """Raises the errors one after the other, then answers; a clock that only pauses move."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.now, self.pauses, self.made = 0.0, [], 0

    def __call__(self):
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    def pause(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds

    def run(self, patience):
        return retried(self, patience=patience, pause=self.pause, clock=lambda: self.now)


def busy(retry_after=None):
    return ClusterError("busy", status=429, passing=True, retry_after=retry_after)


def test_waits_double_up_to_a_limit():
    attempts = Attempts(*(busy() for _ in range(8)))
    assert attempts.run(1000) == "answer"
    assert attempts.pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_the_server_says_how_long_to_wait():
    attempts = Attempts(busy(7), busy(0), busy())
    assert attempts.run(1000) == "answer" and attempts.pauses == [7, 0.4, 0.8]


def test_patience_ends_and_the_last_error_is_raised():
    last = busy()
    attempts = Attempts(*(busy() for _ in range(4)), last)
    with pytest.raises(ClusterError) as raised:
        attempts.run(3.1)
    assert raised.value is last and attempts.now <= 3.1


def test_a_wait_that_would_end_after_the_limit_is_not_begun():
    attempts = Attempts(busy(60))
    with pytest.raises(ClusterError):
        attempts.run(59)
    assert attempts.pauses == []


def test_an_error_that_does_not_pass_is_raised_at_once():
    attempts = Attempts(ClusterError("no", status=403))
    with pytest.raises(ClusterError, match="no"):
        attempts.run(1000)
    assert attempts.made == 1 and attempts.pauses == []
