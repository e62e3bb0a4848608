"""A rank records that its wall clock has jumped, by how much, and nothing else of the record changes."""

import pytest

from chaoskit.environments.machine import process_clocks
from chaoskit.probe import wall_clock
from chaoskit.probe.wall_clock import WallClock
from tests.users import must_have


class Played:
    """Clocks of a test; each reading takes `takes` seconds."""

    def __init__(self):
        self.t, self.off, self.takes = 100.0, 1e9, 0.0

    def monotonic(self):
        self.t += self.takes
        return self.t

    def time(self):
        return self.t + self.off


@pytest.fixture
def played(monkeypatch):
    made = Played()
    monkeypatch.setattr(wall_clock, "monotonic", made.monotonic)
    monkeypatch.setattr(wall_clock, "time", made.time)
    return made


def test_a_jump_is_told_once(played):
    clock = WallClock()
    assert clock.jumped() is None
    played.off -= 600
    assert clock.jumped() == -600 and clock.ahead == 1e9 - 600
    assert clock.jumped() is None
    played.off += 600
    assert clock.jumped() == 600


def test_a_clock_that_is_slowly_put_right_does_not_jump(played):
    clock = WallClock()
    for _ in range(100):
        played.off += 0.05
        assert clock.jumped() is None


def test_a_reading_that_took_long_tells_nothing_and_the_next_one_does(played):
    clock = WallClock()
    played.off += 5
    played.takes = 1.0
    assert clock.jumped() is None
    played.takes = 0.0
    assert clock.jumped() == 5


def test_a_rank_records_it_by_itself(probed, request, tmp_path):
    must_have(request, process_clocks.why_not())
    run = probed(
        """
import os, time, torch
from chaoskit.environments.machine import processes
from chaoskit.environments.machine.process_clocks import set_wall_clocks
net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
def step():
    net(torch.ones(3, 2)).sum().backward(); opt.step(); opt.zero_grad()
step()
for by in (-600.0, 0.0):
    assert set_wall_clocks([processes.identify(os.getpid())], by) == {}
    time.time = lambda: 0.0  # a job that replaces it changes nothing
    step(); step()
"""
    )
    assert run.code == 0, run.output
    jumps = run.events("wall")
    assert [round(event["jumped"]) for event in jumps] == [-600, 600]
    start = run.events("process.start")[0]
    assert jumps[0]["ahead"] - start["ahead"] == pytest.approx(-600, abs=0.1)
    assert len(run.life.steps) == 5
    times = [event.t for event in run.events("step")]
    assert times == sorted(times) and times[-1] - times[0] < 60


def test_a_jump_before_the_record_begins_is_no_event_before_its_start(probed, request):
    must_have(request, process_clocks.why_not())
    run = probed(
        """
import os, torch
from chaoskit.environments.machine import processes
from chaoskit.environments.machine.process_clocks import set_wall_clocks
assert set_wall_clocks([processes.identify(os.getpid())], 77.0) == {}
net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.ones(3, 2)).sum().backward(); opt.step()
"""
    )
    assert run.code == 0 and len(run.life.steps) == 1, run.output
    (record,) = (run.run_dir / "events").glob("rank-*.jsonl")
    assert record.read_text().startswith('{"i":0,') and '"e":"process.start"' in record.read_text().partition("\n")[0]
    assert run.events("wall") == []
