"""What a run begins with that starts from a kept state: the files, and how they came about."""

import json
import os
import time

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.engine.windows.kept_outs import KeptOuts, OutState, fresh
from chaoskit.engine.windows.late_begin import begin_late
from chaoskit.errors import StoreError
from chaoskit.protocol.events import EventWriter

HOUR = 3600.0


@pytest.fixture
def source(tmp_path):
    """An uninterrupted run of an hour ago, with a state after step 21."""
    run = tmp_path / "references" / "abc" / "windows"
    (run / "events").mkdir(parents=True)
    out = run / "out"
    out.mkdir()
    (out / "step-20.pt").write_text("weights")
    then = time.monotonic() - HOUR
    t = 0.0

    def line(kind, **data):
        nonlocal t
        t += 1.0
        return json.dumps({"i": 0, "t": then + t, "e": kind, **data}) + "\n"

    ours = [
        line("launch.start", launch=0, command=["train", str(out)], out=str(out)),
        line("launch.how", launch=0, how="warm"),
    ]
    text = "".join(ours)
    start = {"role": "rank", "rank": 0, "pid": 5, "world": 1, "launch": 0, "restart": 0}
    lines = [line("process.start", **start)]
    lines += [line("step", n=n, losses=["0x1p+0"], state={"model": f"m{n}"}) for n in range(1, 21)]
    call = {"id": 1, "n": 20, "path": f"{out}/step-20.pt", "api": "torch.save"}
    lines += [
        line("save.begin", **call, content={"out": f"={out}", "step": "=20"}),
        line("save.end", id=1, n=20, ok=True),
    ]
    lines += [line("step", n=21, losses=["0x1p+0"], state={"model": "m21"})]
    kept = fresh(run / "outs", within=tmp_path)
    kept.keep(out, save=20, at=21)
    state = OutState(**{**vars(kept.states[0]), "t": then + t + 0.5, "wall": time.time_ns() - int(HOUR * 1e9)})
    kept.states[0] = state
    kept.write()
    lines += [line("step", n=n, losses=["0x1p+0"], state={"model": f"m{n}"}) for n in range(22, 30)]
    text += line("launch.end", launch=0, code=0, cause="itself", survivors=[]) + line("run.end", status="finished")
    for name, told in (("harness", text.splitlines()), ("rank-0-0-5", lines)):
        numbered = [json.dumps({**json.loads(each), "i": i}) + "\n" for i, each in enumerate(told)]
        (run / "events" / f"{name}.jsonl").write_text("".join(numbered))
    return run


@pytest.fixture
def run_dir(tmp_path):
    made = tmp_path / "runs" / "1"
    (made / "events").mkdir(parents=True)
    (made / "out").mkdir()
    return made


def begin(source, run_dir):
    (state,) = KeptOuts.read(source / "outs").states
    begin_late(run_dir, run_dir / "out", state, source, steps=60)


def test_the_record_until_then_is_that_of_launch_0(source, run_dir):
    begin(source, run_dir)
    writer = EventWriter(run_dir / "events" / "harness.jsonl")
    writer.write("launch.start", launch=1, command=["train"], out=str(run_dir / "out"))
    writer.close()
    history = History.read(run_dir)
    assert not history.gaps and (run_dir / "out" / "step-20.pt").read_text() == "weights"
    first, second = history.launches
    assert (first.cause, first.code, first.out, first.how) == ("window", None, str(run_dir / "out"), "warm")
    assert first.begun < first.ended < second.begun and second.begun - first.ended < 60
    (inc,) = history.incarnations
    lifetime = inc.ranks[0]
    assert list(lifetime.steps.numbers) == list(range(1, 22)) and inc.launch == 0
    (save,) = lifetime.saves
    assert save.path == str(run_dir / "out" / "step-20.pt") and save.ended is not None
    assert first.begun < lifetime.steps.times[0] < save.begun < lifetime.steps.times[-1] < first.ended
    assert (history.window.save, history.window.at, history.window.of) == (20, 21, 60)
    assert history.files[0]["files"] == [["step-20.pt", 7]] and history.end is None


def test_what_the_checkpoint_contains_stays(source, run_dir):
    begin(source, run_dir)
    (save,) = History.read(run_dir).incarnations[0].ranks[0].saves
    assert save.content == {"out": f"={source / 'out'}", "step": "=20"}


def test_files_are_as_old_as_they_were(source, run_dir):
    about = os.stat(source / "out" / "step-20.pt")
    begin(source, run_dir)
    assert os.stat(run_dir / "out" / "step-20.pt").st_mtime - about.st_mtime == pytest.approx(HOUR, abs=60)


def test_a_damaged_record_is_not_used(source, run_dir):
    record = source / "events" / "rank-0-0-5.jsonl"
    record.write_text(record.read_text().replace('"n": 3,', '"n": 3,,'))
    with pytest.raises(StoreError, match="damaged at line 4"):
        begin(source, run_dir)


def test_nor_is_a_file_that_was_altered(source, run_dir):
    (source / "outs" / "20" / "step-20.pt").write_text("Weights")
    with pytest.raises(StoreError, match="was altered since"):
        begin(source, run_dir)
