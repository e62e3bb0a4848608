"""`MachineRun`: it waits for as long as a job may take."""

import os
from types import SimpleNamespace

import pytest

from chaoskit.environments.machine.machine_run import MachineRun


@pytest.mark.parametrize("timeout", [60.0, 3e6, 3.2e8])
def test_it_waits_longer_than_one_poll_can(timeout):
    read, write = os.pipe()
    os.write(write, b".")
    news = iter([[], ["something"]])
    run = SimpleNamespace(storage=None, gate=read, launch=None, has_ended=True, happened=lambda: next(news))
    try:
        assert MachineRun.wait(run, timeout) == ["something"]
    finally:
        os.close(read)
        os.close(write)
