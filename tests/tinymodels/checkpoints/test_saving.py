"""Saves under trouble: tried again, given up without giving up the run, written behind its back."""

import pytest

from tinymodels.checkpoints.formats import Writer
from tinymodels.checkpoints.loading import Checkpoints

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5)  # 20 steps, alone
ASYNC = (*SMALL, "--save-async", "--write-delay", 0.1)


def published(out):
    return sorted(int(path.name[5:]) for path in (out / "checkpoints").glob("step-*"))


FULL = OSError(28, "disk full")


def failing(times, error=FULL):
    """Checkpoints whose first tensors cannot be written, so many times."""

    class Failing(Checkpoints):
        left = times

        def write(self, state, folder):
            super().write(state, folder)
            if Failing.left:
                Failing.left -= 1
                raise error

    return Failing


@pytest.mark.parametrize("flags", [SMALL, ASYNC], ids=["sync", "async"])
def test_a_write_that_fails_is_tried_again(train, tmp_path, capsys, assert_same_end, flags):
    train(tmp_path / "whole", *flags)
    assert train(tmp_path / "parts", *flags, checkpoints=failing(2)) == 0
    said = capsys.readouterr().out
    assert "saving step 5 failed, attempt 2 of 3: rank 0: [Errno 28] disk full\nstep 6 " in said
    assert published(tmp_path / "parts") == [10, 15, 20]
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_a_disk_that_stays_full_costs_the_checkpoint_not_the_run(train, tmp_path, capsys):
    assert train(tmp_path, *SMALL, "--stop-after", 12, checkpoints=failing(3)) == 0
    assert "going on without a checkpoint of step 5; older ones are kept" in capsys.readouterr().out
    assert published(tmp_path) == [10]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000010"]


def test_other_errors_are_not_tried_again(train, tmp_path):
    with pytest.raises(ValueError, match="a bug"):
        train(tmp_path, *SMALL, checkpoints=failing(1, ValueError("a bug")))


def test_resumes_exactly_from_an_asynchronous_save(train, tmp_path, capsys, assert_same_end):
    train(tmp_path / "whole", *SMALL)
    train(tmp_path / "parts", *ASYNC, "--stop-after", 13)
    capsys.readouterr()
    train(tmp_path / "parts", *ASYNC)
    assert "resumed from" in capsys.readouterr().out
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_sharded_asynchronous_saves(train, tmp_path, assert_same_end):
    train(tmp_path / "whole", *SMALL, "--parallel", "fsdp")
    train(tmp_path / "parts", *ASYNC, "--parallel", "fsdp", "--stop-after", 13)
    train(tmp_path / "parts", *ASYNC, "--parallel", "fsdp")
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_nothing_is_published_before_it_is_written(train, tmp_path):
    seen = []

    class Watched(Checkpoints):
        def save(self, step, state):
            super().save(step, state)
            seen.append((step, published(tmp_path)))

    train(tmp_path, *SMALL, "--save-async", "--write-delay", 0.5, checkpoints=Watched)
    assert [(step, step in there) for step, there in seen] == [(step, False) for step in (5, 10, 15, 20)]
    assert published(tmp_path) == [10, 15, 20]


def test_published_as_soon_as_it_is_written(train, tmp_path):
    seen = []

    class Watched(Checkpoints):
        def finish(self, folder, step):
            seen.append(step)
            super().finish(folder, step)

    train(tmp_path, *ASYNC, "--save-every", 20, "--epochs", 20, "--stop-after", 39, checkpoints=Watched)
    assert seen == [20] and published(tmp_path) == [20]


def test_a_stager_that_does_not_copy_is_found_out(train, tmp_path, assert_same_end):
    """The seam is real: what is written then is what training has made of it meanwhile."""

    class Lazy(Checkpoints):
        def stager(self):
            copying = super().stager()
            copying.stage = lambda tensors: tensors
            return copying

    train(tmp_path / "whole", *SMALL)
    train(tmp_path / "parts", *ASYNC, "--stop-after", 13, checkpoints=Lazy)
    train(tmp_path / "parts", *ASYNC)
    with pytest.raises(AssertionError):
        assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_a_thread_that_fails_costs_that_checkpoint(train, tmp_path, capsys, monkeypatch):
    real, errors = Writer.write_data, [OSError(28, "disk full")]

    def write_data(self, plan, planner):
        if errors:
            raise errors.pop()
        return real(self, plan, planner)

    monkeypatch.setattr(Writer, "write_data", write_data)
    assert train(tmp_path, *ASYNC, "--keep", 9) == 0
    assert "saving step 5 failed: rank 0: [Errno 28] disk full" in capsys.readouterr().out
    assert published(tmp_path) == [10, 15, 20]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--save-async",)], ids=["sync", "async"])
@pytest.mark.parametrize("small", [True, False], ids=["beside-dcp", "inside-dcp"])
def test_a_write_error_of_one_rank_of_two(launch, tmp_path, small, flags):
    """Nobody waits for anybody, and what is published is whole."""
    fail = f"""
    import torch
    real, errors = torch.save, [OSError(5, "no such luck")]

    def save(content, file, *more, **options):
        small = str(getattr(file, "name", "")).endswith("rank-00001.pt")
        if errors and rank == 1 and small == {small}:
            raise errors.pop()
        return real(content, file, *more, **options)

    torch.save = save
    """
    codes, said = launch(tmp_path, "--epochs", 1, "--timeout", 600, *flags, part=fail)
    given_up = flags and not small  # then the state had moved on
    told = "saving step 10 failed" + (":" if given_up else ", attempt 1 of 3:")
    assert codes == [0, 0] and f"{told} rank 1: [Errno 5] no such luck" in said
    assert published(tmp_path) == ([20] if given_up else [10, 20])
