"""The second control beside the first: when it begins, and that it ends with the process that began it."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import pytest

from chaoskit import Job
from chaoskit.engine import second_control
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.engine.second_control import SecondControl, has_room, meets_alone
from chaoskit.environments.launch.mode import COLD, Mode
from tests.engine.windows.test_window_watch import write
from tests.history_writer import Writer
from tests.warm_modes import teach

TORCHRUN = ["torchrun", "--nproc-per-node", "1", "train.py", "{out}"]


@pytest.fixture
def first(tmp_path, monkeypatch):
    """The directory of a first control, and what writes its record up to a step."""
    monkeypatch.setattr(second_control, "has_room", lambda pids: True)
    (tmp_path / "events").mkdir()

    def comes_to(step, **more):
        write(Writer(every=10, steps=1000).launch().live(until=step, **more), tmp_path)

    return tmp_path, comes_to


def control(run_dir, run=str, *, possible=True, mode=lambda: COLD):
    said = []
    return SecondControl(run_dir, mode=mode, run=run, started=partial(said.append, 1), possible=possible), said


def look(second):
    """A look that is due."""
    second.next_look = min(second.next_look, 0.0)
    assert second.look(time.monotonic()) is False


@pytest.mark.parametrize(
    ("step", "begins"),
    [(9, False), (11, False), (12, False), (15, False), (16, True)],
    ids=["no save", "one step behind it", "two", "for 14 s", "for 15 s"],
)
def test_it_begins_once_the_first_has_saved_and_windows_pay(first, step, begins):
    run_dir, comes_to = first
    comes_to(step)
    second, said = control(run_dir)
    with second:
        look(second)
        assert (second.mode is not None) is begins and len(said) == begins
        assert second.status() == ("cold" if begins else "")


def test_it_waits_for_a_save(first):
    run_dir, comes_to = first
    comes_to(40, saves=False)
    second, _ = control(run_dir)
    look(second)
    assert second.mode is None


def test_it_begins_once(first):
    run_dir, comes_to = first
    comes_to(40)
    second, said = control(run_dir, mode=lambda: Mode(reason="so"))
    with second:
        look(second)
        look(second)
        assert said == [1] and second.status() == "cold: so"


def test_where_it_is_not_possible_nobody_looks(first):
    run_dir, comes_to = first
    comes_to(40)
    second, _ = control(run_dir, possible=False)
    assert second.look(1e12) is False and second.mode is None and second.status() == ""


def test_a_process_that_fails_has_no_status(first):
    run_dir, comes_to = first
    comes_to(40)
    second, _ = control(run_dir, run=int)
    with second:
        look(second)
        assert second.mode is not None and second.status() == "" and second.mode is None


#: Says that it runs, and how it ended.
_RUNS = """
import pathlib, sys, time
def run(mode):
    here = pathlib.Path(__file__).parent
    (here / "runs").write_text(str(mode))
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        (here / "interrupted").write_text("")
        raise
"""


def wait_for(path):
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.05)


@pytest.mark.launches
def test_what_still_runs_is_interrupted(first, monkeypatch):
    run_dir, comes_to = first
    (run_dir / "long_run.py").write_text(_RUNS)
    monkeypatch.syspath_prepend(run_dir)
    import long_run

    comes_to(40)
    with control(run_dir, run=long_run.run)[0] as second:
        look(second)
        wait_for(run_dir / "runs")
    assert (run_dir / "interrupted").exists() and second.mode is None


@pytest.mark.launches
def test_it_ends_with_a_harness_that_is_killed(first):
    run_dir, comes_to = first
    (run_dir / "long_run.py").write_text(_RUNS)
    comes_to(40)
    harness = textwrap.dedent(f"""
        import pathlib, sys, time
        sys.path[:0] = [{str(run_dir)!r}, {str(Path.cwd())!r}]
        import long_run
        from chaoskit.engine import second_control
        from chaoskit.environments.launch.mode import COLD
        second_control.has_room = lambda pids: True
        second = second_control.SecondControl(
            pathlib.Path({str(run_dir)!r}), mode=lambda: COLD, run=long_run.run, started=print, possible=True
        )
        second.next_look = 0.0
        second.look(time.monotonic())
        time.sleep(600)
    """)
    process = subprocess.Popen([sys.executable, "-c", harness])
    try:
        wait_for(run_dir / "runs")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_for(run_dir / "interrupted")


def test_each_rank_of_both_needs_a_core_and_memory(monkeypatch):
    own = os.getpid()
    monkeypatch.setattr(second_control, "ACCELERATORS", ())
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert has_room([own]) and has_room([2**22 + 1]) and not has_room([own, own])
    monkeypatch.setattr(second_control, "memory_available", lambda: 1 << 20)
    assert not has_room([own]) and has_room([2**22 + 1])
    monkeypatch.setattr(second_control, "ACCELERATORS", ("/dev/nul[l]",))
    assert not has_room([2**22 + 1])


@pytest.mark.parametrize(
    ("words", "env", "alone"),
    [
        (TORCHRUN, {}, True),
        ([*TORCHRUN[:1], "--standalone", *TORCHRUN[1:]], {}, True),
        ([*TORCHRUN[:1], "--rdzv-endpoint=localhost:29400", *TORCHRUN[1:]], {}, False),
        ([*TORCHRUN[:1], "--master_port", "29500", *TORCHRUN[1:]], {}, False),
        (TORCHRUN, {"MASTER_PORT": "29500"}, False),
        (TORCHRUN, {"PET_RDZV_ENDPOINT": "localhost:29400"}, False),
    ],
)
def test_two_launches_must_not_meet(words, env, alone, monkeypatch):
    for name in second_control._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert meets_alone(Job.from_command(words, env=env)) is alone


class Told(list):
    def phase(self, text):
        self.append(text)


BESIDE, AGAIN = "references 1 and 2 of 2, side by side", "the run beside the first differs from it: once more, alone"
FIRST_AGAIN = "the first run failed beside the second: once more, alone"
#: A job that minds a second one in its directory: one of them leaves.
_MINDS = """
import fcntl, os, pathlib, runpy, sys, threading, time
lock, met = open("lock", "w"), pathlib.Path("met")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    met.write_text("")
    if {second_leaves}:
        sys.exit(3)
def watch():
    while not met.exists():
        time.sleep(0.05)
    met.unlink()
    os._exit(4)
if not {second_leaves} and not met.exists():
    threading.Thread(target=watch, daemon=True).start()
sys.argv[0] = {trainer!r}
runpy.run_path({trainer!r}, run_name="__main__")
"""
TRAINER = Path(__file__).parents[1] / "trainers" / "hidden.py"


def reference_of(words, place, monkeypatch):
    monkeypatch.setattr(second_control, "PAY_FROM", 0.5)
    monkeypatch.setattr(second_control, "LOOK_EVERY", 0.2)
    monkeypatch.setattr(second_control, "has_room", lambda pids: len(pids) == 1)
    store, told = Store(place / "chaos"), Told()
    teach(store)
    job = Job.from_command([sys.executable, *words, "--out", "{out}", "--pace", "0.3"], cwd=str(place))
    return store, Runner(store, launch="warm", windows="always", progress=told).reference(job), told


@pytest.mark.launches
def test_it_trains_beside_the_first_and_keeps_states(tmp_path, monkeypatch):
    store, reference, told = reference_of([str(TRAINER)], tmp_path, monkeypatch)
    assert BESIDE in told and AGAIN not in told and reference.deterministic
    first, second = (one.incarnations[0] for one in reference.controls)
    assert first.ranks[0].steps.times[0] < second.start < first.ranks[0].steps.times[-1]
    assert (store.references / reference.digest / "control-1" / "outs" / "outs.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("second_leaves", [True, False])
def test_a_job_that_minds_a_second_one_is_run_alone(second_leaves, tmp_path, monkeypatch):
    script = tmp_path / "minds.py"
    script.write_text(_MINDS.format(second_leaves=second_leaves, trainer=str(TRAINER)))
    _, reference, told = reference_of([str(script)], tmp_path, monkeypatch)
    assert BESIDE in told and (AGAIN if second_leaves else FIRST_AGAIN) in told and reference.deterministic
