"""What a dead harness left is removed, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from chaoskit.environments.machine import owner, processes, scratch
from chaoskit.environments.machine.sweep import Swept, sweep

DEAD = {"pid": os.getpid(), "start": 1}
#: The sockets of a run: the gate's, and that of the agents in containers.
DOORS = ("gate.sock", "agents.sock")


@pytest.fixture
def make(tmp_path, run_id):
    """A run under tmp_path with all that a run may leave: a process, a socket, a scratch directory."""
    children = []
    scratches = []

    def begin(who, *, where="runs/one", ident=run_id, status="running", mark=True):
        run_dir = tmp_path / where
        run_dir.mkdir(parents=True)
        for door in DOORS:
            (run_dir / door).touch()
        record = {"id": ident, "status": status, "owner": who, "kept": [1]}
        (run_dir / "run.json").write_text(json.dumps(record))
        left = scratch.path(ident)
        left.mkdir(exist_ok=True)
        scratches.append(left)
        if mark:
            (left / "owner.json").write_text(json.dumps(who))
        env = {**os.environ, "CHAOSKIT_ID": ident, "CHAOSKIT_RUN": str(run_dir)}
        children.append(subprocess.Popen(["sleep", "1000"], env=env, start_new_session=True))
        return run_dir, children[-1], left

    yield begin
    for child in children:
        child.kill()
        child.wait()
    for left in scratches:
        shutil.rmtree(left, ignore_errors=True)


def test_a_place_to_try_things_out_is_gone_whole(make, tmp_path):
    slot, child, left = make(DEAD, where="runs/one/slots/0")
    swept = sweep(tmp_path)
    assert (swept.runs, swept.processes) == ((), (child.pid,))
    # Another run on this machine may have swept what is not below this store.
    assert str(slot) in swept.paths and not left.exists()
    assert not slot.exists() and slot.parent.parent.is_dir()


@pytest.mark.parametrize("where", ["runs/one", "references/abc/control-0"])
@pytest.mark.parametrize("mark", [True, False])
def test_a_dead_owner(make, tmp_path, where, mark):
    run_dir, child, left = make(DEAD, where=where, mark=mark)
    swept = sweep(tmp_path)
    assert swept.runs == (str(run_dir),)
    assert swept.processes == (child.pid,)
    assert set(swept.paths) >= {str(run_dir / door) for door in DOORS}
    assert child.wait() == -9
    assert not left.exists()
    record = json.loads((run_dir / "run.json").read_text())
    assert record["status"] == "interrupted"
    assert (record["owner"], record["kept"]) == (DEAD, [1])
    assert os.listdir(run_dir) == ["run.json"]
    assert sweep(tmp_path) == Swept()
    assert not Swept() and swept


@pytest.mark.parametrize(
    "who",
    [
        owner.current(),
        {"pid": os.getpid(), "start": processes.identify(os.getpid()).started},
        {**DEAD, "host": "another-machine"},
        {"pid": "1"},
        None,
    ],
)
def test_an_owner_that_lives_or_cannot_be_judged(make, tmp_path, who):
    run_dir, child, left = make(who)
    before = (run_dir / "run.json").read_bytes()
    assert sweep(tmp_path) == Swept()
    assert child.poll() is None and left.exists()
    assert (run_dir / "gate.sock").exists()
    assert (run_dir / "run.json").read_bytes() == before


def test_what_ended_in_order_is_left_alone(make, tmp_path):
    run_dir, child, left = make(DEAD, status="finished", mark=False)
    assert sweep(tmp_path) == Swept()
    assert child.poll() is None and left.exists() and (run_dir / "gate.sock").exists()


def test_the_scratch_of_a_living_owner_is_not_that_of_a_dead_run(make, tmp_path, run_id):
    """Another project may have a run of the same name."""
    _, child, left = make(DEAD)
    (left / "owner.json").write_text(json.dumps(owner.current()))
    env = {**os.environ, "CHAOSKIT_ID": run_id, "CHAOSKIT_RUN": "/elsewhere"}
    stranger = subprocess.Popen(["sleep", "1000"], env=env)
    try:
        assert sweep(tmp_path).processes == (child.pid,)
        assert left.exists() and stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"status": "running", "owner": 3}'])
def test_a_bad_record_is_left_alone(tmp_path, content):
    (tmp_path / "runs" / "bad").mkdir(parents=True)
    (tmp_path / "runs" / "bad" / "run.json").write_bytes(content)
    assert sweep(tmp_path) == Swept()
    assert (tmp_path / "runs" / "bad" / "run.json").read_bytes() == content


def test_a_name_that_leads_elsewhere_is_left_alone(tmp_path, run_id):
    target = scratch.path(run_id)
    run_dir = tmp_path / "runs" / "evil"
    run_dir.mkdir(parents=True)
    (run_dir / "run.json").write_text(json.dumps({"id": "x/../../home", "status": "running", "owner": DEAD}))
    assert sweep(tmp_path) == Swept()
    assert not target.exists()


def test_a_scratch_directory_alone(tmp_path, run_id):
    left = scratch.path(run_id)
    left.mkdir()
    (left / "owner.json").write_text(json.dumps(DEAD))
    (left / "deep").mkdir()
    sweep(tmp_path / "absent")
    assert not left.exists()


def test_a_link_is_not_followed(tmp_path, run_id):
    target = tmp_path / "precious"
    target.mkdir()
    (target / "owner.json").write_text(json.dumps(DEAD))
    scratch.path(run_id).symlink_to(target)
    try:
        assert not scratch.is_abandoned(scratch.path(run_id))
        sweep(tmp_path)
        assert (target / "owner.json").exists()
    finally:
        scratch.path(run_id).unlink()


@pytest.mark.parametrize("link", ["runs/one", "runs", "runs/one/slots"])
def test_a_store_with_links_is_swept_up_to_them(make, tmp_path, link):
    """Only what is below the store itself is chaoskit's to remove or to rewrite."""
    where = "runs/one/slots/0" if link.endswith("slots") else "runs/one"
    _, child, _ = make(DEAD, where=where)
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / link).rename(elsewhere)
    (tmp_path / link).symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    assert len(before) == 3
    swept = sweep(tmp_path)
    assert swept.runs == () and child.poll() is None
    assert {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()} == before


#: More than Python reads, and more than it writes.
DEEP = ("[" * 100_000, '{"id": "a", "status": "running", "x": ' + "[" * 500 + "]" * 500 + "}")


@pytest.mark.parametrize("content", [*DEEP, None, "7", '{"status": []}'], ids=["deep", "nested", "FIFO", "7", "list"])
def test_one_damaged_run_does_not_keep_others_from_being_swept(make, tmp_path, content):
    run_dir, child, left = make(DEAD)
    for place in (tmp_path / "runs" / "damaged", left):  # one of the same names is swept before, one after
        place.mkdir(exist_ok=True)
        for name in ("run.json", "owner.json"):
            (place / name).unlink(missing_ok=True)
            os.mkfifo(place / name) if content is None else (place / name).write_text(content)
    assert str(run_dir) in sweep(tmp_path).runs
    assert not scratch.is_abandoned(left)
    assert child.poll() is not None or child.wait(10)
