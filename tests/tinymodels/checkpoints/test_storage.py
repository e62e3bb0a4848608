"""A storage that is slow, late, read-only or gone: it costs checkpoints, and not the run; or the run ends in a line."""

import os
import re
import time

import pytest

from tinymodels.checkpoints.durable import wait_for
from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.checkpoints.manifest import step_of
from tinymodels.metrics import Metrics

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5, "--keep", 9)  # 20 steps, alone
READ_ONLY = OSError(30, "Read-only file system")


def published(out):
    return sorted(step_of(path) for path in (out / "checkpoints").glob("step-*"))


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(Checkpoints, "PAUSE", 0.0)


def ill(times, where):
    """Checkpoints for which, from the second one on, so many calls of `where` fail."""

    class Ill(Checkpoints):
        left = times

    real = getattr(Checkpoints, where)

    def act(self, *args):
        if self.trusted is not None and Ill.left:
            Ill.left -= 1
            raise READ_ONLY
        return real(self, *args)

    setattr(Ill, where, act)
    return Ill


@pytest.mark.parametrize(
    ("where", "times", "missing"),
    [
        ("write", 2, set()),
        ("write", 6, {10, 15}),
        *((where, 3, {10}) for where in ("make", "wait_for_folder", "checksum_files", "describe", "publish")),
    ],
)
def test_wherever_it_fails_older_ones_are_kept_and_later_ones_made(train, tmp_path, capsys, where, times, missing):
    assert train(tmp_path, *SMALL, "--stop-after", 20, checkpoints=ill(times, where)) == 0
    assert set(published(tmp_path)) == {5, 10, 15, 20} - missing
    said = capsys.readouterr().out
    assert said.count("Read-only file system") == times
    assert {int(n) for n in re.findall(r"going on without a checkpoint of step (\d+)", said)} == missing
    assert not list((tmp_path / "checkpoints").glob(".tmp*"))


@pytest.mark.parametrize("where", ["write_marker", "prune"])
def test_what_fails_after_it_is_published_unmakes_nothing(train, tmp_path, capsys, where):
    """A quota that is hit by the marker only: the checkpoint is there, and is not written again over itself."""

    class Full(Checkpoints):
        def publish(self, folder, step):
            assert not self.path(step).exists()
            super().publish(folder, step)

    def fail(self, *args):
        raise OSError(122, "Disk quota exceeded")

    setattr(Full, where, fail)
    assert train(tmp_path, *SMALL, "--stop-after", 11, checkpoints=Full) == 0
    assert published(tmp_path) == [5, 10]
    assert "after saving step 5: [Errno 122] Disk quota exceeded" in capsys.readouterr().out
    assert train(tmp_path, *SMALL) == 0
    assert "step-00000010 (" in capsys.readouterr().out


@pytest.mark.slow
def test_nobody_waits_for_a_folder_that_could_not_be_made(launch, tmp_path):
    read_only = """
    from tinymodels.checkpoints.loading import Checkpoints

    class ReadOnly(Checkpoints):
        LATE = 600.0  # more than this test has

        def make(self, temporary):
            if rank == 0 and temporary.name.endswith("10"):
                raise OSError(30, "Read-only file system")
            super().make(temporary)

    parts["checkpoints"] = ReadOnly
    """
    codes, said = launch(tmp_path, "--epochs", 1, part=read_only)
    assert codes == [0, 0] and published(tmp_path) == [20]
    assert said.count("rank 0: [Errno 30] Read-only file system") == 3


def test_a_failed_save_is_no_save(train, tmp_path, capsys):
    """The last step is saved again; and who has to leave without a checkpoint says so."""
    from tests.tinymodels.preemption.test_signals import ToldAtStep7

    assert train(tmp_path, *SMALL, trainer=ToldAtStep7, checkpoints=ill(99, "write")) == 143
    assert capsys.readouterr().out.endswith("told to leave after step 7, which could not be saved\n")
    assert train(tmp_path, *SMALL, checkpoints=ill(9, "write")) == 0  # 10, 15 and 20 fail; 20 is tried again
    assert published(tmp_path) == [5, 20]


def test_an_asynchronous_save_of_the_last_step_that_fails_is_made_up_for(train, tmp_path):
    class Last(Checkpoints):
        failed = False

        def complete(self, folder, step):
            if step == 20 and not Last.failed:
                Last.failed = True
                from tinymodels.elasticity.collective_io import StorageFailed

                raise StorageFailed("no such luck")
            super().complete(folder, step)

    assert train(tmp_path, *SMALL, "--save-async", checkpoints=Last) == 0
    assert Last.failed and published(tmp_path) == [5, 10, 15, 20]


def test_metrics_that_cannot_be_written_are_held_back(train, tmp_path, capsys, monkeypatch, assert_same_end):
    """And what a disk has kept of a line when it filled up is not left between two others."""
    real, left = Metrics.write, [7]

    def write(self):
        if left[0] and self.pending:
            left[0] -= 1
            with self.writing, self.path.open("ab") as file:
                self.torn = file.seek(0, os.SEEK_END) if self.torn is None else self.torn
                file.write(b'{"step": ')
            raise OSError(28, "disk full")
        real(self)

    train(tmp_path / "whole", *SMALL)
    monkeypatch.setattr(Metrics, "write", write)
    assert train(tmp_path / "parts", *SMALL) == 0
    assert "metrics are held back: " in capsys.readouterr().out and not left[0]
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_an_export_that_fails_is_one_clear_line_and_made_up_for(train, tmp_path, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        full = OSError(28, "disk full")
        patch.setattr("tinymodels.checkpoints.formats.sync_file", lambda path: (_ for _ in ()).throw(full))
        assert train(tmp_path, *SMALL) == 1
        told = "tinymodels.train: error: the storage fails: rank 0: [Errno 28] disk full; start again when it does not"
        assert capsys.readouterr().err == f"{told}\n"
    assert train(tmp_path, *SMALL) == 0
    assert "resumed from" in capsys.readouterr().out and (tmp_path / "model.safetensors").exists()


def test_a_name_that_appears_late_is_waited_for_and_not_for_ever(tmp_path):
    (tmp_path / "there").touch()
    wait_for([tmp_path / "there"], 0.0)
    with pytest.raises(FileNotFoundError, match=r"late has not appeared within 0.1 s"):
        wait_for([tmp_path / "late"], 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--save-async",)], ids=["sync", "async"])
def test_a_save_outlasts_the_timeout_of_a_healthy_job(launch, tmp_path, flags):
    slow = """
    import time
    from tinymodels.checkpoints.formats import Writer
    real = Writer.write_data

    def write_data(self, plan, planner):
        time.sleep(7 if rank == 1 else 0)
        return real(self, plan, planner)

    Writer.write_data = write_data
    """
    codes, said = launch(tmp_path, "--epochs", 1, "--timeout", 3, *flags, part=slow)
    assert codes == [0, 0] and "failed" not in said
    assert published(tmp_path) == [10, 20]


STUCK = """
    import os, signal, threading, time
    from tinymodels.checkpoints.loading import Checkpoints

    class Stuck(Checkpoints):
        def checksum_files(self, folder):
            if rank == 1:
                {}
            return super().checksum_files(folder)

    parts["checkpoints"] = Stuck
    """


@pytest.mark.slow
def test_a_storage_that_never_answers_ends_the_run_in_a_line(launch, tmp_path):
    begun = time.monotonic()
    flags = ("--epochs", 1, "--timeout", 30, "--storage-timeout", 3)
    codes, said = launch(tmp_path, *flags, part=STUCK.format("time.sleep(999)"))
    assert codes == [1, 1] and "error: the storage has not answered for 3 s" in said
    assert time.monotonic() - begun < 30


@pytest.mark.slow
def test_who_is_frozen_in_a_save_is_missed(two_ranks, tmp_path):
    """All of its threads are silent, which no slow disk does to them."""
    freeze = STUCK.format("os.kill(os.getpid(), signal.SIGSTOP)")
    with two_ranks(tmp_path / "out", "--epochs", 1, "--timeout", 3, part=freeze) as ranks:
        assert ranks[0].wait(timeout=40) == 1
        assert "step 10 " in ranks[0].output and "imed out" in ranks[0].output


@pytest.mark.slow
def test_names_that_another_host_sees_late(launch, tmp_path):
    late = """
    import os, time
    from pathlib import Path
    real, first = Path.exists, {}

    def exists(self, **more):
        if ".tmp-step" in str(self) and rank == 1:
            if time.monotonic() < first.setdefault(str(self), time.monotonic() + 0.5):
                return False
        return real(self, **more)

    Path.exists = exists
    """
    codes, said = launch(tmp_path, "--epochs", 1, part=late)
    assert codes == [0, 0] and "failed" not in said
    assert published(tmp_path) == [10, 20]


@pytest.mark.slow
def test_a_rank_that_cannot_read_leaves_nobody_waiting(launch, tmp_path):
    """It would have to join the others, who read the tensors together."""
    blind = """
    from tinymodels.checkpoints.loading import Checkpoints

    class Blind(Checkpoints):
        SEEN = 0.1

        def wait_for_files(self, path):
            if rank == 1:
                raise OSError(116, "Stale file handle")

    parts["checkpoints"] = Blind
    """
    assert launch(tmp_path, "--epochs", 1, "--stop-after", 12)[0] == [0, 0]
    codes, said = launch(tmp_path, "--epochs", 1, part=blind)
    assert codes == [1, 1]
    assert "error: reading step-00000010 failed: rank 1: [Errno 116] Stale file handle" in said
