"""Damage at rest: what each way does to the files of a checkpoint, that it is seen, and that it can be undone."""

import hashlib
import json
import os
import time
import types
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit import faults
from chaoskit.capabilities import CanTouchFiles, StoredCheckpoint
from chaoskit.errors import ChaoskitError
from chaoskit.faults.checkpoint import times
from tinymodels.checkpoints import manifest

#: Nobody can tell by it that a file was changed.
STAMP = 2_000_000_007


class Disk:
    """An environment of files: what lies in `out/step-N` is the save after N steps; `newest` first."""

    def __init__(self, root):
        self.root = root
        self.stored_elsewhere = ()
        (root / "out").mkdir()

    def put(self, name, data):
        path = self.out() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, ns=(1, STAMP))
        return path

    def out(self):
        return self.root / "out"

    def aside(self):
        made = self.root / f"aside-{len(list(self.root.glob('aside-*')))}"
        made.mkdir()
        return made

    def stored_checkpoints(self):
        folders = sorted(self.out().glob("step-*"), reverse=True)
        if not folders:
            raise LookupError("nothing saved")
        return tuple(
            StoredCheckpoint(
                self._files(folder) + self.stored_elsewhere,
                {"launch": 0, "restart": 0, "n": int(folder.name[5:])},
            )
            for folder in folders
        )

    def _files(self, folder):
        return tuple(str(path.relative_to(self.out())) for path in sorted(folder.rglob("*")) if path.is_file())

    def checkpoint_paths(self):
        return tuple(path.name for path in self.out().iterdir())

    def read(self):
        return {str(p.relative_to(self.out())): p.read_bytes() for p in self.out().rglob("*") if p.is_file()}


class OneOf:
    """The same, where the newest checkpoint is the only one."""

    def __init__(self, disk):
        self.out, self.aside, self.disk = disk.out, disk.aside, disk

    def stored_checkpoints(self):
        return self.disk.stored_checkpoints()[:1]


@pytest.fixture
def disk(tmp_path):
    """Three checkpoints of two ranks: a shard of each, something small, a manifest with checksums, a pointer, a log."""
    disk = Disk(tmp_path)
    assert isinstance(disk, CanTouchFiles)
    for step in (10, 20, 30):
        parts = {f"sharded/__{rank}_0.distcp": f"{step} of {rank} ".encode() * 9 for rank in (0, 1)}
        parts |= {"sharded/.metadata": b"where what lies", "shared.pt": b"shared %d" % step}
        sums = {name: {"bytes": len(data), "blake2b": _sum(data)} for name, data in parts.items()}
        for name, data in parts.items():
            disk.put(f"step-{step}/{name}", data)
        told = {"step": step, "files": sums, "checksum": _sum(b"%d" % step)}
        disk.put(f"step-{step}/manifest.json", json.dumps(told, indent=1).encode())
    disk.put("latest", b"step-30\n")
    disk.put("log", b"saved step-10, step-20, step-30")
    return disk


def _sum(data):
    return hashlib.blake2b(data).hexdigest()


def strike(disk, fault):
    """Apply it and see it; which files changed, and what they are now (None: gone)."""
    before = disk.read()
    told = json.loads(json.dumps(fault.action.apply(disk, 2)))
    assert fault.action.observed(disk, told), "it must be seen"
    now = disk.read()
    changed = {name: now.get(name) for name in before if now.get(name) != before[name]}
    assert sorted(each["file"] for each in told["files"]) == sorted(changed) and not now.keys() - before.keys()
    assert all(
        (disk.out() / name).stat().st_mtime_ns == STAMP for name, data in changed.items() if data is not None
    )
    return told, changed


def small_manifests(disk):
    """The shards are the largest files."""
    for step in (10, 20, 30):
        disk.put(f"step-{step}/manifest.json", b"{}")


LARGEST = "step-30/sharded/__0_0.distcp"
WHOLE = b"30 of 0 " * 9


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        (faults.truncate(), WHOLE[:36]),
        (faults.zero_fill(), bytes(72)),
        (faults.empty(), b""),
        (faults.delete(), None),
        (faults.swap_older(), b"20 of 0 " * 9),
        (faults.swap_rank(), b"30 of 1 " * 9),
    ],
    ids=str,
)
def test_the_largest_file_of_the_newest(disk, fault, left):
    small_manifests(disk)
    told, changed = strike(disk, fault)
    assert changed == {LARGEST: left}
    assert told["saves"] == [{"launch": 0, "restart": 0, "n": 30}]
    assert [save["n"] for save in told["spared"]] == [20, 10]


def test_a_larger_file_that_no_save_wrote_is_not_what_is_damaged(disk, monkeypatch):
    disk.put("step-30/recover.py", b"copied beside it " * 10_000)
    told = disk.stored_checkpoints
    small = next(name for name in told()[0].files if name != LARGEST and not name.endswith(".py"))
    monkeypatch.setattr(disk, "stored_checkpoints", lambda: (replace(told()[0], written=(small,)), *told()[1:]))
    for fault in (*(faults.overwrite(bytes=1, seed=seed) for seed in range(9)), faults.empty()):
        _, changed = strike(disk, fault)
        assert set(changed) == {small}
    assert changed == {small: b""}


def test_a_whole_checkpoint_is_gone_and_nothing_beside(disk):
    disk.stored_elsewhere = ("copies/step-30/shared.pt", "run.json")
    for name in disk.stored_elsewhere:
        disk.put(name, b"of the same time")
    before = disk.read()
    action = faults.delete(whole=True, checkpoints="all", launches=1).action
    told = action.apply(disk, 2)
    assert sorted(os.listdir(disk.out())) == ["copies", "latest", "log", "run.json"]
    assert action.observed(disk, told)
    assert action.heal(disk, told)["mended"] == told["saves"] and disk.read() == before
    with pytest.raises(LookupError, match="do not tell"):
        faults.delete(whole=True).action.apply(OneOf(disk), 2)


@pytest.mark.parametrize("way", [faults.file_bitflip, faults.overwrite, faults.truncate, faults.delete,
faults.swap_older])
@pytest.mark.parametrize(("checkpoints", "steps"), [(2, [30, 20]), ("all", [30, 20, 10])])
def test_several_of_the_newest(disk, way, checkpoints, steps):
    told, changed = strike(disk, way(checkpoints=checkpoints))
    assert {int(name[5:7]) for name in changed} == set(steps) == {save["n"] for save in told["saves"]}
    assert len(told["spared"]) == 3 - len(steps)


@pytest.mark.parametrize(
    ("checkpoints", "steps", "text"),
    [
        (1, [20], "the newest checkpoint but one"),
        (2, [20, 10], "2 checkpoints, from the newest but one on"),
        ("all", [20, 10], "all checkpoints but the newest"),
    ],
)
def test_older_ones_alone(disk, checkpoints, steps, text):
    fault = faults.truncate(checkpoints=checkpoints, older=True)
    told, changed = strike(disk, fault)
    assert {int(name[5:7]) for name in changed} == set(steps) == {save["n"] for save in told["saves"]}
    assert [save["n"] for save in told["spared"]] == sorted({10, 20, 30} - set(steps), reverse=True)
    assert str(fault) == f"truncate the largest file of {text}"
    assert fault.action.to_json()["older"] is True and "older" not in faults.truncate().action.to_json()


def test_of_all_the_oldest_gets_a_newer_one(disk):
    small_manifests(disk)
    _, changed = strike(disk, faults.swap_older(checkpoints="all"))
    shards = {name: data[:2] for name, data in changed.items()}
    assert shards == {
        f"step-{step}/sharded/__0_0.distcp": of for step, of in ((30, b"20"), (20, b"10"), (10, b"20"))
    }


def test_bytes_are_overwritten_where_the_seed_says(disk):
    seen = []
    for seed in (1, 1, 2):
        fault = faults.overwrite(bytes=5, seed=seed, launches=1)
        before = disk.read()
        told, changed = strike(disk, fault)
        ((name, data),) = changed.items()
        off = [at for at, (a, b) in enumerate(zip(before[name], data, strict=True)) if a != b]
        at = told["files"][0]["offset"]
        assert off == list(range(at, at + told["files"][0]["bytes"])), "every byte, and no other"
        seen.append((name, data))
        fault.action.heal(disk, told)
        assert disk.read() == before
    assert seen[0] == seen[1] != seen[2]


def test_the_manifest_and_the_metadata(disk):
    assert list(strike(disk, faults.damage_manifest())[1]) == ["step-30/manifest.json"]
    assert list(strike(disk, faults.damage_metadata())[1]) == ["step-30/sharded/.metadata"]


def test_checksums_are_gone_and_something_is_damaged(disk):
    disk.put("step-30/shared.pt.sha256", b"abc")
    disk.put("step-30/big", bytes(9999))
    _, changed = strike(disk, faults.strip_checksums())
    assert changed["step-30/shared.pt.sha256"] is None
    assert changed["step-30/big"].count(0) == 9998
    told = json.loads(changed["step-30/manifest.json"])
    assert told.keys() == {"step", "files"} and told["step"] == 30
    assert set(map(tuple, told["files"].values())) == {("bytes",)}


@pytest.mark.parametrize(
    ("text", "stale", "dangling"),
    [
        (b"step-30\n", b"step-20\n", b"step-31\n"),
        (b'{"at": "saves/step-30"}', b'{"at": "saves/step-20"}', b'{"at": "saves/step-31"}'),
        (b"30", b"20", b"31"),
        (b"0030\n", b"0020", b"0031"),
    ],
)  # fmt: skip
def test_a_pointer_in_a_file(disk, text, stale, dangling):
    for fault, instead in ((faults.stale_pointer(), stale), (faults.dangling_pointer(), dangling)):
        disk.put("latest", text)
        told, changed = strike(disk, fault)
        assert {name: data.strip() for name, data in changed.items()} == {"latest": instead.strip()}
        assert "saves" not in told, "the checkpoints themselves are as they were"


def test_a_pointer_that_is_a_link(disk):
    path = disk.out() / "latest"
    path.unlink()
    path.symlink_to("step-30")
    action = faults.dangling_pointer(launches=1).action
    told = action.apply(disk, 2)
    assert os.readlink(path) == "step-31" and action.observed(disk, told)
    assert action.heal(disk, told) == {"restored": ["latest"], "mended": []}
    assert os.readlink(path) == "step-30"


MISSED = [
    (faults.stale_pointer(), "latest", "keeps no pointer"),
    (faults.damage_manifest(), "step-30/manifest.json", "names its other files"),
    (faults.strip_checksums(), "step-30/manifest.json", "known to have checksums"),
    (faults.damage_metadata(), "step-30/sharded/.metadata", r"no \.metadata"),
]


@pytest.mark.parametrize(("fault", "name", "why"), MISSED, ids=lambda value: str(value))
def test_where_there_is_no_such_file_it_is_missed(disk, fault, name, why, tmp_path):
    (disk.out() / name).unlink()
    before = disk.read()
    with pytest.raises(LookupError, match=why):
        fault.action.apply(disk, 2)
    assert disk.read() == before and os.listdir(tmp_path) == ["out"]


def test_where_there_are_too_few_checkpoints_it_is_missed(tmp_path):
    disk = Disk(tmp_path)
    with pytest.raises(LookupError, match="nothing saved"):
        faults.truncate().action.apply(disk, 2)
    disk.put("step-10/a", b"whole")
    for fault, why in (
        (faults.file_bitflip(checkpoints=2), "needs 2 whole checkpoints, and there are 1"),
        (faults.file_bitflip(older=True), "needs 2 whole checkpoints, and there are 1"),
        (faults.file_bitflip(checkpoints="all", older=True), "needs 2 whole checkpoints, and there are 1"),
        (faults.swap_older(), "no other checkpoint"),
        (faults.swap_rank(), "no two files"),
        (faults.stale_pointer(), "no older checkpoint"),
    ):
        with pytest.raises(LookupError, match=why):
            fault.action.apply(disk, 2)
    disk.put("step-10/a", b"")
    for fault in (faults.empty(), faults.zero_fill(), faults.truncate()):
        with pytest.raises(LookupError, match="would not change"):
            fault.action.apply(disk, 2)


def test_what_cannot_be_done_to_all_is_done_to_none(disk):
    (disk.out() / "step-10" / "sharded" / ".metadata").unlink()
    before = disk.read()
    with pytest.raises(LookupError):
        faults.damage_metadata(checkpoints="all").action.apply(disk, 2)
    assert disk.read() == before


def test_what_is_not_there_any_more_was_not_seen(disk):
    for fault, undo in ((faults.truncate(), WHOLE), (faults.delete(), b"written anew")):
        action = fault.action
        told = action.apply(disk, 2)
        file = told["files"][0]["file"]
        disk.put(file, undo)
        assert action.observed(disk, told) is None
    told = faults.file_bitflip().action.apply(disk, 2)
    os.utime(disk.out() / told["files"][0]["file"])
    assert faults.file_bitflip().action.observed(disk, told) is None, "its time gives it away"


def test_all_is_put_back(disk, tmp_path):
    before = disk.read()
    for way in (faults.file_bitflip, faults.truncate, faults.delete, faults.swap_older, faults.strip_checksums):
        action = way(checkpoints="all", launches=1).action
        told = action.apply(disk, 2)
        assert disk.read() != before and action.heal_launches == 1
        healed = action.heal(disk, told)
        assert healed["mended"] == told["saves"] and disk.read() == before
        assert all(path.stat().st_mtime_ns == STAMP for path in disk.out().rglob("*.distcp"))
    assert os.listdir(tmp_path) == ["out"], "the originals are kept no longer than needed"


def test_what_the_job_has_made_of_it_is_left_alone(disk):
    small_manifests(disk)
    action = faults.truncate(checkpoints="all", launches=1).action
    told = action.apply(disk, 2)
    one, two, three = (disk.out() / each["file"] for each in told["files"])
    one.write_bytes(b"saved anew")
    two.parent.parent.rename(disk.out() / "refused")
    healed = action.heal(disk, told)
    assert one.read_bytes() == b"saved anew" and not two.exists() and three.read_bytes() == b"10 of 0 " * 9
    # The third checkpoint is whole again, whatever became of the others.
    assert healed == {"restored": [told["files"][2]["file"]], "mended": [told["saves"][2]]}


@pytest.mark.parametrize("way", [faults.delete(whole=True), faults.empty(), faults.strip_checksums()])
def test_nothing_behind_a_link_is_damaged(disk, tmp_path, way):
    """Between the listing and the damage, a directory may have been replaced by a link."""
    (disk.out() / "step-30").rename(tmp_path / "precious")
    (disk.out() / "step-30").symlink_to(tmp_path / "precious")
    before = {path: path.read_bytes() for path in (tmp_path / "precious").rglob("*") if path.is_file()}
    assert before
    with pytest.raises(LookupError, match=r"cannot be changed.*Not a directory"):
        way.action.apply(disk, 2)
    assert {path: path.read_bytes() for path in (tmp_path / "precious").rglob("*") if path.is_file()} == before


def test_nothing_is_damaged_where_the_job_has_replaced_its_directory_by_a_link(disk, tmp_path):
    disk.out().rename(tmp_path / "precious")
    disk.out().symlink_to(tmp_path / "precious")
    before = disk.read()
    for fault in (faults.truncate(), faults.hide()):
        with pytest.raises(LookupError, match="Not a directory"):
            fault.action.apply(disk, 2)
    assert disk.read() == before and before


def test_nothing_is_put_back_behind_a_link(disk, tmp_path):
    fault = faults.delete(whole=True, launches=1)
    told = fault.action.apply(disk, 2)
    (tmp_path / "precious").mkdir()
    (disk.out() / "step-30").symlink_to(tmp_path / "precious")
    assert fault.action.heal(disk, told) == {"restored": [], "mended": []}
    assert list((tmp_path / "precious").iterdir()) == []


def test_what_was_hidden_is_not_put_back_behind_a_link(disk, tmp_path):
    fault = faults.hide()
    told = fault.action.apply(disk, 2)
    (tmp_path / "precious").mkdir()
    disk.out().rename(tmp_path / "gone")
    disk.out().mkdir()
    told = {**told, "paths": ["deep/latest"]}
    aside = Path(told["aside"])
    (aside / "deep").mkdir()
    (aside / "latest").rename(aside / "deep" / "latest")
    (disk.out() / "deep").symlink_to(tmp_path / "precious")
    with pytest.raises(ChaoskitError, match=r"deep/latest cannot be put back .*it is kept in"):
        fault.action.heal(disk, told)
    assert list((tmp_path / "precious").iterdir()) == [] and (aside / "deep" / "latest").exists()


def test_only_the_checkpoints_of_one_place_are_hidden(disk):
    fault = faults.hide(within="step-30*")
    before = disk.read()
    told = fault.action.apply(disk, 2)
    assert told["paths"] == ["step-30"] and fault.action.observed(disk, told) == {"hidden": ["step-30"]}
    assert (disk.out() / "step-20").exists() and not (disk.out() / "step-30").exists()
    fault.action.heal(disk, told)
    assert disk.read() == before
    assert str(fault.action) == "hide the checkpoints at step-30* for 1 launch"
    assert fault.action.to_json() == {"kind": "hide", "launches": 1, "within": "step-30*"}
    with pytest.raises(LookupError, match="no checkpoint lies at elsewhere"):
        faults.hide(within="elsewhere/*").action.apply(disk, 2)


def test_what_two_checkpoints_share_is_damaged_in_one(disk):
    new, old = disk.out() / "step-30" / "big", disk.put("step-20/big", b"unchanged since" * 99)
    new.hardlink_to(old)
    _, changed = strike(disk, faults.file_bitflip())
    assert list(changed) == ["step-30/big"]


def test_random_damage_is_never_accepted(tmp_path):
    """200 times, anywhere in a checkpoint of the bundled trainer: its verification refuses it, and says why."""
    disk = Disk(tmp_path)
    for name, size in (("sharded/__0_0.distcp", 5000), ("sharded/.metadata", 300), ("shared.pt", 900)):
        disk.put(f"step-00000020/{name}", hashlib.shake_128(name.encode()).digest(size))
    folder = disk.out() / "step-00000020"
    manifest.describe(folder, manifest.checksum_files(folder, 0), step=20, world_size=1, about={}, notes={})
    before = disk.read()
    for seed in range(200):
        fault = faults.overwrite(bytes=1 + seed % 64, seed=seed, launches=1)
        told = fault.action.apply(disk, 2)
        with pytest.raises(manifest.Invalid):
            manifest.verify(folder)
        fault.action.heal(disk, told)
        assert disk.read() == before
    manifest.verify(folder)


def _by_time(disk):
    """What lies side by side, as by the time of its last change, and when each directory had its own."""
    places = [disk.out(), *sorted(path for path in disk.out().rglob("*") if path.is_dir())]
    orders = [
        [path.name for path in sorted(place.iterdir(), key=lambda p: p.stat().st_ctime_ns)] for place in places
    ]
    return orders, [place.stat().st_mtime_ns for place in places]


WAYS = [faults.file_bitflip, faults.truncate, faults.delete, faults.swap_older, faults.swap_rank,
faults.strip_checksums]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("checkpoints", [{}, {"older": True}, {"checkpoints": "all"}], ids=str)
def test_neither_to_damage_nor_to_put_back_makes_anything_newer(disk, way, checkpoints):
    """A job may ask for the newest directory by its time (ctime, that nobody can set, or mtime)."""
    times._renew(sorted(disk.out().rglob("*"), key=str))
    before, stamps = _by_time(disk)
    action = way(launches=1, **checkpoints).action
    told = action.apply(disk, 2)
    assert _by_time(disk) == (before, stamps) or way is faults.delete
    assert [name for name in _by_time(disk)[0][0] if name.startswith("step")] == ["step-10", "step-20", "step-30"]
    action.heal(disk, told)
    assert _by_time(disk) == (before, stamps)


@pytest.mark.parametrize("way", [faults.truncate, faults.delete])
def test_a_file_that_is_put_back_beside_newer_ones_is_not_the_newest(tmp_path, way):
    disk = Flat(tmp_path)
    for step in (10, 20, 30):
        os.utime(disk.put(f"step-{step}.pt", b"%d " % step * 9), ns=(1, time.time_ns()))
        time.sleep(0.02)
    action = way(older=True, launches=1).action
    told = action.apply(disk, 1)
    assert told["files"][0]["file"] == "step-20.pt"
    action.heal(disk, told)
    for clock in ("st_ctime_ns", "st_mtime_ns"):
        found = sorted(disk.out().iterdir(), key=lambda path, clock=clock: getattr(path.stat(), clock))
        assert [path.name for path in found] == ["step-10.pt", "step-20.pt", "step-30.pt"]


class Flat(Disk):
    """Checkpoints are files side by side, some saved twice."""

    copies = types.MappingProxyType({})

    def stored_checkpoints(self):
        names = sorted((path.name for path in self.out().glob("step-*")), reverse=True)
        return tuple(
            StoredCheckpoint((name,), {"launch": 0, "restart": 0, "n": int(name[5:7])}, copies=self.copies)
            for name in names
        )


@pytest.mark.parametrize("way", [faults.file_bitflip, faults.overwrite, faults.truncate, faults.empty, faults.delete])
def test_of_what_was_saved_twice_both_are_damaged_and_put_back(tmp_path, way):
    disk = Flat(tmp_path)
    disk.copies = {"step-30.pt": ("best.pt",)}
    disk.put("step-20.pt", b"20 " * 30)
    for name in ("step-30.pt", "best.pt"):
        disk.put(name, b"30 " * 30 + name.encode()[:4])
    before = disk.read()
    told, changed = strike(disk, way(launches=1))
    assert set(changed) == {"best.pt", "step-30.pt"} and told["spared"] == [{"launch": 0, "restart": 0, "n": 20}]
    way(launches=1).action.heal(disk, told)
    assert disk.read() == before
