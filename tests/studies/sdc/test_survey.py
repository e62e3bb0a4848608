"""The survey for real: many corruptions from one launch come to the same as in launches of their own, to the bit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaoskit import Job, faults
from chaoskit.cli.main import main
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.errors import Undecided, UsageError
from chaoskit.protocol.targets import InjectionTarget
from chaoskit.studies.sdc import make_map
from chaoskit.studies.sdc.changes import VALUES
from chaoskit.studies.sdc.trace import Seen, Trace, judge

TRAINERS = Path(__file__).parents[2] / "trainers"
TOLERANCE = 1e-4


def job(*words):
    return Job(str(TRAINERS / "simple.py"), ["--out", "{out}", *words])


def made(store, *words, most=24, **options):
    options = {"seconds": 400.0, "window": 3, "tolerance": TOLERANCE, "workers": 1, **options}
    return make_map(Runner(store, launch="warm"), job(*words), most=most, **options)


def in_a_run_of_its_own(store, one, window, runner):
    """The same corruption, as a fault of an ordinary run; what the window then holds."""
    injection = one.injection
    kind = VALUES[injection.cell.change]["kind"]
    more = {"rank": injection.rank, "into": injection.cell.place, "seed": injection.seed}
    fault = {
        "nan": lambda: faults.nan(**more),
        "zero": lambda: faults.zero(**more),
        "scale": lambda: faults.scale(100.0, **more),
    }[kind]()
    run = runner.run(job(), fault.at_step(window.struck))
    trace = Trace()
    for rank, life in run.history.incarnations[0].ranks.items():
        for step in life.steps:
            if step.n in window.steps:
                trace.add(rank, step.n, Seen(step.losses, step.components, nonfinite=step.nonfinite))
    return trace


@pytest.mark.exhaustive
def test_in_place_is_the_same_as_an_ordinary_run_of_its_own(shared_store):
    # What this job has: a place that it has not is given up, and leaves a gap.
    there = ("parameter", "gradient", "gradient:*:reduced", "optimizer", "activation:*", "collective:all_reduce")
    found = made(shared_store, most=48, into=[InjectionTarget.parse(each) for each in there])
    assert not found.apart and found.controls >= 1
    assert len(found.results) + len(found.refused) == 48 == found.whole and not list(Path(found.run).glob("slots"))
    assert found.shared > len(found.results) / 2
    # It has no guard at all: nothing is detected.
    assert found.count("silent").hits > 0 and found.count("detected").hits == 0
    runner = Runner(shared_store, launch="warm")
    reference = runner.reference(job())
    shared = [one for one in found.results if not one.alone and one.injection.cell.change in VALUES]
    kinds = {}
    for one in shared:
        kinds.setdefault(one.injection.cell.place.kind, one)
    assert len(kinds) >= 3
    for one in list(kinds.values())[:3]:
        window = one.injection.window
        trace = in_a_run_of_its_own(shared_store, one, window, runner)
        assert trace.whole(window, 2)
        assert judge(trace, window, reference, tolerance=TOLERANCE).signature == one.outcome.signature


@pytest.mark.launches
def test_the_same_seed_comes_to_the_same_and_the_same_again_side_by_side(shared_store):
    first = made(shared_store, most=16, seed=7, into=[InjectionTarget.parse("parameter:*")])
    again = made(shared_store, most=16, seed=7, into=[InjectionTarget.parse("parameter:*")], workers=2)
    names = ("where", "dtype", "before", "after", "changed")
    said = [
        [(one.injection, one.outcome.signature, [one.effect[name] for name in names]) for one in each.results]
        for each in (first, again)
    ]
    assert said[0] == said[1] and first.refused == again.refused
    assert first.whole == again.whole == 16


@pytest.mark.launches
def test_a_place_that_is_not_there_is_told_with_what_comes_near(shared_store):
    with pytest.raises(UsageError, match=r"--into parameter:layers\.9\.\*:.*layers\."):
        made(shared_store, into=[InjectionTarget.parse("parameter:layers.9.*")])
    with pytest.raises(UsageError, match=r"--into collective:all_gather:1:.*all_gather"):
        made(shared_store, into=[InjectionTarget.parse("collective:all_gather")])


@pytest.mark.launches
def test_a_job_too_short_and_a_time_too_short(shared_store):
    with pytest.raises(UsageError, match="--window 40: a window needs 42 steps"):
        made(shared_store, window=40)
    with pytest.raises(Undecided, match="too short to test a single corruption") as raised:
        made(shared_store, seconds=0.01)
    assert raised.value.exit_code == 3


@pytest.mark.slow
def test_interrupted_it_leaves_nothing_behind(tmp_path):
    store = Store(tmp_path / "store")
    words = [sys.executable, "-m", "chaoskit", "sdc-map", "--dir", str(store.root), "--window", "3", "--"]
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    command = [*torchrun, "--nproc-per-node", "2", str(TRAINERS / "simple.py"), "--out", "{out}"]
    with (tmp_path / "said").open("w") as said:
        harness = subprocess.Popen(
            [*words, *command], stdout=said, stderr=said,
            # A shell that runs the tests in the background has them ignore Ctrl-C, and that is inherited.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        deadline = time.monotonic() + 120
        while not [run for run in store.all_runs() if list(run.glob("slots/1/events/*"))]:
            assert harness.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        harness.send_signal(signal.SIGINT)
        assert harness.wait(timeout=120) == 130
    (run,) = store.all_runs()
    assert json.loads((run / "run.json").read_text())["status"] == "interrupted"
    assert not (run / "slots").exists() and not list(Path("/tmp").glob(f"chaoskit-*-{run.name}*"))
    for process in Path("/proc").glob("[0-9]*"):
        try:
            assert run.name.encode() not in (process / "environ").read_bytes()
        except OSError:
            continue


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "the command of the job is missing"),
        (["--into", "gradiant"], "did you mean 'gradient'"),
        (["--into", "collective"], "say which"),
        (["--window", "0"], "a whole number from 1, not 0"),
        (["--tolerance", "-1"], "not a number >= 0"),
        (["--seconds", "0"], "not a positive number"),
        (["--picture", "/nowhere/at/all.svg", "--", "true", "{out}"], "--picture"),
    ],
)
def test_bad_input_is_one_message_and_exit_2(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["sdc-map", *words])
    except SystemExit as end:
        code = end.code
    assert code == 2
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told
    assert not (tmp_path / ".chaoskit").exists()
