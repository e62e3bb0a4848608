"""What has to come first is on the disk first: files and names before a rename, a rename before what rests on it."""

import json
import os
from pathlib import Path

import pytest

from tinymodels.checkpoints.durable import make_folder

SMALL = ("--samples", 150, "--epochs", 1, "--save-every", 4, "--keep", 1)  # 10 steps, alone


@pytest.fixture
def disk(monkeypatch):
    """What was forced to the disk and what was renamed, in order: ('sync', path), ('rename', from, to)."""
    done = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def renamed(real):
        def act(old, new, **more):
            done.append(("rename", Path(old), Path(new), files_and_folders(Path(old))))
            real(old, new, **more)

        return act

    def synced(handle):
        done.append(("sync", Path(os.readlink(f"/proc/self/fd/{handle}"))))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed(rename))
    monkeypatch.setattr(os, "replace", renamed(replace))
    return done


def files_and_folders(path):
    return [path, *path.rglob("*")] if path.is_dir() else [path]


def synced(done):
    return {event[1] for event in done if event[0] == "sync"}


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--save-async",),
        ("--parallel", "fsdp"),
        ("--delta-every", 3),
        ("--format", "pt"),
        ("--format", "safetensors"),
    ],
    ids=["sync", "async", "fsdp", "delta", "pt", "safetensors"],
)
def test_all_of_it_is_on_the_disk_before_its_name_is(train, tmp_path, disk, flags):
    train(tmp_path / "new" / "out", *SMALL, *flags)
    published = [n for n, event in enumerate(disk) if event[0] == "rename" and event[2].name.startswith("step-")]
    assert len(published) == 3
    begun = 0
    for at in published:
        missing = [path for path in disk[at][3] if path not in synced(disk[begun:at])]
        assert not missing
        begun = at
    final = next(
        n for n, event in enumerate(disk) if event[0] == "rename" and event[2].name == "model.safetensors"
    )
    assert disk[final][1] in synced(disk[:final]) and tmp_path / "new" / "out" in synced(disk[final:])


def test_what_rests_on_a_rename_comes_after_it_is_on_the_disk(train, tmp_path, disk):
    out = tmp_path / "new" / "out"
    train(out, *SMALL)
    names = [(event[0], event[-1 if event[0] == "sync" else 2]) for event in disk]
    published = names.index(("rename", out / "checkpoints" / "step-00000004"))
    marked = names.index(("rename", out / "run.json"))
    assert out / "checkpoints" in synced(disk[published:marked])
    # The folders above it, too: else all of it could be lost, and the marker not.
    assert {out, tmp_path / "new", tmp_path} <= synced(disk[:marked])
    later = names.index(("rename", out / "checkpoints" / "step-00000008"))
    pruned = names.index(("rename", out / "checkpoints" / ".tmp-pruned-step-00000004"))
    assert later < pruned and out / "checkpoints" in synced(disk[later:pruned])
    assert out / "checkpoints" in synced(disk[pruned:])


def test_metrics_are_on_the_disk_before_the_checkpoint_that_ends_them(train, tmp_path, disk):
    train(tmp_path, *SMALL)
    at = next(n for n, event in enumerate(disk) if event[0] == "rename" and event[2].name == "step-00000004")
    assert tmp_path / "metrics.jsonl" in synced(disk[:at])


def test_a_marker_that_is_made_up_for_rests_on_the_checkpoint_too(train, tmp_path, disk):
    train(tmp_path, *SMALL, "--stop-after", 5)
    (tmp_path / "run.json").unlink()  # killed right after the rename: nobody knows whether it is on the disk
    disk.clear()
    train(tmp_path, *SMALL)
    marked = next(n for n, event in enumerate(disk) if event[0] == "rename" and event[2].name == "run.json")
    assert {tmp_path, tmp_path / "checkpoints"} <= synced(disk[:marked])


def test_the_first_checkpoint_lost_and_no_marker_is_a_new_start(train, tmp_path, capsys):
    """All that a power cut in the first save may leave."""
    (tmp_path / "checkpoints" / ".tmp-step-00000004" / "sharded").mkdir(parents=True)
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1, "loss": "0x1p+1", "lr": 0.1}\n' + bytes(30))
    assert train(tmp_path, *SMALL) == 0
    assert "starting from scratch" in capsys.readouterr().out
    lines = [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == list(range(1, 11))


def test_a_removal_that_was_undone_or_half_done_harms_nobody(train, tmp_path, assert_same_end):
    train(tmp_path / "whole", *SMALL)
    train(tmp_path / "parts", *SMALL, "--keep", 3, "--stop-after", 9)
    checkpoints = tmp_path / "parts" / "checkpoints"
    (checkpoints / "step-00000004" / "shared.pt").unlink()  # hidden, half removed, and there again
    train(tmp_path / "parts", *SMALL)
    assert [path.name for path in checkpoints.iterdir()] == ["step-00000010"]
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_new_folders_have_their_names_on_the_disk(tmp_path, disk):
    make_folder(tmp_path / "a" / "b" / "c")
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b"} <= synced(disk)
    disk.clear()
    make_folder(tmp_path / "a" / "b" / "c")
    assert tmp_path / "a" / "b" in synced(disk)
