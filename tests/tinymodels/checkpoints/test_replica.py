"""The second store: filled behind the back of training, and what a run comes back from when the first is gone."""

import shutil
import threading
import time

import pytest

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.checkpoints.manifest import Invalid, step_of
from tinymodels.checkpoints.replica import Replica
from tinymodels.checkpoints.store import Store

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 4, "--keep", 2)  # 20 steps, alone


@pytest.fixture
def places(tmp_path):
    return tmp_path / "first", tmp_path / "second"


def steps(folder):
    return sorted(step_of(path) for path in folder.glob("*"))


@pytest.mark.parametrize("flags", [(), ("--save-async",), ("--delta-every", 3)], ids=["sync", "async", "delta"])
def test_the_first_store_is_gone(train, tmp_path, places, capsys, assert_same_end, flags):
    """The disaster: another machine, an empty disk, and the copies."""
    out, second = places
    train(tmp_path / "whole", *SMALL)
    train(out, *SMALL, *flags, "--replica", second, "--stop-after", 14)
    assert max(steps(second)) == 12 and steps(second) == steps(out / "checkpoints")
    shutil.rmtree(out)
    capsys.readouterr()
    assert train(out, *SMALL, "--replica", second) == 0
    said = capsys.readouterr().out
    assert f"restored step-00000012 from {second}" in said and "step-00000012 (epoch" in said
    for store in (tmp_path / "whole", out):
        (store / "metrics.jsonl").unlink()  # those of before are gone with the disk
        (store / "metrics.jsonl").touch()
    if "--delta-every" not in flags:
        assert_same_end(tmp_path / "whole", out)
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


def test_all_of_the_first_damaged(train, places, capsys):
    out, second = places
    train(out, *SMALL, "--replica", second, "--stop-after", 14)
    for path in (out / "checkpoints").iterdir():
        (path / "shared.pt").write_bytes(b"")
    capsys.readouterr()
    assert train(out, *SMALL, "--replica", second, "--stop-after", 15) == 0
    said = capsys.readouterr().out
    assert "refused step-00000012: shared.pt has 0 bytes" in said and "restored step-00000012" in said
    Store(out / "checkpoints", 2).validate(out / "checkpoints" / "step-00000012")


def test_a_damaged_base_is_restored_with_what_hangs_on_it(train, places, capsys):
    out, second = places
    flags = (*SMALL, "--delta-every", 4, "--replica", second)
    train(out, *flags, "--stop-after", 14)
    (out / "checkpoints" / "step-00000004" / "sharded" / "__0_0.distcp").write_bytes(b"")
    train(out, *flags, "--stop-after", 17)
    assert "restored step-00000012" in capsys.readouterr().out
    store = Store(out / "checkpoints", 2)
    store.validate(store.path(16))  # and nothing that it hangs on was taken for refused, and removed


def test_what_is_newer_here_is_taken(train, places, capsys):
    out, second = places
    train(out, *SMALL, "--replica", second, "--stop-after", 9)
    train(out, *SMALL, "--stop-after", 13)
    train(out, *SMALL, "--replica", second, "--stop-after", 14)
    assert "restored" not in capsys.readouterr().out


def test_a_damaged_copy_is_refused(train, places, capsys):
    out, second = places
    train(out, *SMALL, "--replica", second, "--stop-after", 14)
    shutil.rmtree(out)
    (second / "step-00000012" / "shared.pt").write_bytes(b"")
    assert train(out, *SMALL, "--replica", second, "--stop-after", 15) == 0
    said = capsys.readouterr().out
    assert f"refused step-00000012 in {second}: shared.pt has 0 bytes" in said and "restored step-00000008" in said


def test_copies_of_another_run_are_refused(train, places, capsys):
    out, second = places
    train(out, *SMALL, "--replica", second, "--stop-after", 9)
    shutil.rmtree(out)
    assert train(out, *SMALL, "--replica", second, "--seed", 7) == 1
    assert "another configuration: seed was 1234, is 7" in capsys.readouterr().err
    assert steps(out / "checkpoints") == []


def test_a_replica_that_fails_costs_nothing_but_itself(train, places, capsys, monkeypatch):
    out, second = places
    second.write_text("not a folder")
    assert train(out, *SMALL, "--replica", second) == 0
    said = capsys.readouterr().out
    assert f"step-00000004 could not be copied to {second}" in said and "finished at step 20" in said


def test_a_disk_that_fills_up_is_cleared_again(train, places, monkeypatch):
    out, second = places
    real, errors = shutil.copyfileobj, [OSError(28, "disk full")] * 2

    def copy(old, new, size):
        new.write(b"half of it")
        if errors:
            raise errors.pop()
        new.seek(0)
        real(old, new, size)

    monkeypatch.setattr(shutil, "copyfileobj", copy)
    train(out, *SMALL, "--replica", second, "--stop-after", 14)
    assert not list(second.glob(".tmp*")) and 12 in steps(second)


class Slow(Replica):
    """A second store behind a thin line."""

    held = threading.Event()

    def copy(self, path, store):
        self.held.wait(30)
        super().copy(path, store)


def test_a_slow_one_is_not_waited_for_and_skips_to_the_newest(train, places):
    out, second = places

    class Thin(Checkpoints):
        def open_replica(self, folder):
            return Slow(Store(folder, self.keep), self.world.say)

        def wait_for_replica(self):
            assert steps(second) == [] and steps(self.folder) == [8, 12]  # all of training is over
            Slow.held.set()
            super().wait_for_replica()

    Slow.held.clear()
    train(out, *SMALL, "--replica", second, "--stop-after", 14, checkpoints=Thin)
    assert 8 not in steps(second) and 12 in steps(second)


def test_one_that_never_answers_is_left(train, places, capsys, monkeypatch):
    out, second = places

    class Thin(Checkpoints):
        LATE = 0.2

        def open_replica(self, folder):
            return Slow(Store(folder, self.keep), self.world.say)

    Slow.held.clear()
    begun = time.monotonic()
    assert train(out, *SMALL, "--replica", second, checkpoints=Thin) == 0
    assert time.monotonic() - begun < 25
    assert f"the newest checkpoint is not in {second} yet" in capsys.readouterr().out
    Slow.held.set()


def test_a_copy_is_verified_before_it_is_published(train, places, tmp_path):
    out, second = places
    train(out, *SMALL, "--stop-after", 5)
    newest = out / "checkpoints" / "step-00000004"
    (newest / "shared.pt").write_bytes(b"")
    replica = Replica(Store(second, 1), print)
    with pytest.raises(Invalid, match=r"shared\.pt has 0 bytes"):
        replica.copy(newest, replica.store)
    assert steps(second) == [-1]  # what is left of it, which nobody takes for one
