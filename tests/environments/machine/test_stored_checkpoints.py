"""Which files a save has left: told by the record and by time, whatever the job calls them."""

from __future__ import annotations

import os

import pytest

from tests.environments.machine.files_of_saves import Job


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def two_saves(job, *, second_ends=True, goes_on=True):
    """Both ranks save after steps 2 and 4, under names that are gone later on."""
    for n in (1, 2):
        job.step(n, at=n)
    for n in (2, 4):
        for rank in (0, 1):
            job.save(rank, n, f"tmp/{n}.{rank}", at=n + 0.1, ends=n == 2 or second_ends or rank == 0)
            job.file(f"step-{n}/{rank}", at=n + 0.2)
        job.file(f"step-{n}/manifest", at=n + 0.5)
        for step in (n + 1, n + 2):
            if n == 2 or goes_on:
                job.step(step, at=step)


def test_the_newest_is_found_under_the_names_that_it_has_now(job):
    two_saves(job)
    job.file("log", at=5.5)
    (job.out / "latest").symlink_to("step-4")
    found = job.newest()
    assert found.files == ("step-4/0", "step-4/1", "step-4/manifest")
    assert found.save == {"launch": 0, "restart": 0, "n": 4}


def test_one_that_has_not_ended_on_every_rank_is_not_it(job):
    two_saves(job, second_ends=False, goes_on=False)
    assert job.newest().save["n"] == 2
    assert job.newest().files == ("step-2/0", "step-2/1", "step-2/manifest")


def test_one_that_a_rank_had_not_begun_is_not_it(job):
    two_saves(job, goes_on=False)
    job.step(5, at=5)
    job.step(6, at=6)
    job.save(0, 6, "tmp/6.0", at=6.1)
    job.file("step-6/0", at=6.2)
    assert job.newest().save["n"] == 4


def test_one_of_which_a_write_was_still_to_come_is_not_it(job):
    for n in (1, 2):
        job.step(n, at=n, ranks=[0])
        for part in ("a", "b")[: 3 - n]:
            job.save(0, n, f"{n}/{part}", at=n + 0.1 + (part == "b") * 0.3)
            job.file(f"{n}/{part}", at=n + 0.2)
    assert job.newest().files == ("1/a", "1/b")
    # Had the rank gone on, there would have been nothing more to write.
    job.step(3, at=3, ranks=[0])
    assert job.newest().files == ("2/a",)


def test_one_that_failed_is_not_it_unless_it_was_tried_again(job):
    two_saves(job)
    job.step(7, at=7)
    job.save(0, 6, "tmp/6.0", at=6.1, ok=False)
    job.save(1, 6, "tmp/6.1", at=6.1)
    assert job.newest().save["n"] == 4
    job.save(0, 6, "tmp/6.0", at=6.4)
    job.file("step-6/0", at=6.5)
    job.step(8, at=8)
    assert (job.newest().save["n"], job.newest().files) == (6, ("step-6/0",))


def test_the_last_incarnation_that_saved_comes_first(job):
    two_saves(job)
    job.launch, job.restart = 1, 2
    job.step(1, at=11)
    job.save(0, 1, "tmp/5.0", at=11.1)
    job.file("step-5", at=11.2)
    job.step(2, at=12)
    job.launch = 2
    job.step(1, at=21)
    job.file("log", at=21)
    assert job.newest().files == ("step-5",)
    assert job.newest().save == {"launch": 1, "restart": 2, "n": 1}


def test_weights_alone_are_no_checkpoint_unless_there_is_nothing_else(job):
    job.step(1, at=1)
    job.save(0, 1, "weights", at=1.1, full=False)
    job.file("weights", at=1.2)
    job.step(2, at=2)
    assert job.newest().files == ("weights",)
    job.save(0, 2, "whole", at=2.1)
    job.file("whole", at=2.2)
    job.save(0, 2, "rest", at=2.5, full=False)  # a part of it
    job.file("rest", at=2.6)
    job.step(3, at=3)
    job.save(0, 3, "weights-3", at=3.1, full=False)
    job.file("weights-3", at=3.2)
    assert job.newest().files == ("rest", "whole")


def test_where_times_say_nothing_the_path_does(job):
    job.step(1, at=1)
    job.save(0, 1, "step-1", at=1.1)
    job.file("step-1/a", at=-50)
    job.file("elsewhere", at=-50)
    job.step(2, at=2)
    assert job.newest().files == ("step-1/a",)
    # But what a later save has written over belongs to that one.
    job.save(0, 2, "step-1", at=2.1, ends=False)
    job.stamp(job.out / "step-1" / "a", 2.2)
    with pytest.raises(LookupError, match="nothing is left"):
        job.newest()


def test_a_clock_that_is_coarse(job):
    two_saves(job)
    job.stamp(job.out / "step-4" / "0", 4.09)
    assert "step-4/0" in job.newest().files
    job.stamp(job.out / "step-4" / "0", 4.0)
    assert "step-4/0" not in job.newest().files


def test_a_save_right_before_the_end_lasts_until_then(job):
    two_saves(job, goes_on=False)
    assert job.newest().files == ("step-4/0", "step-4/1", "step-4/manifest")


def test_a_run_without_saves(job):
    job.step(1, at=1)
    job.file("log", at=1)
    with pytest.raises(LookupError, match="no checkpoint"):
        job.newest()


def test_a_record_that_was_cut_short(job):
    two_saves(job)
    with (job.run_dir / "events" / "rank-0-0-0.jsonl").open("a") as file:
        file.write('{"i": 99, "t": 5, "e": "save.beg')
    assert job.newest().save["n"] == 4


def test_what_a_save_wrote_itself_is_told_from_what_was_copied_beside_it(job):
    for n in (1, 2):
        job.step(n, at=n)
    for rank in (0, 1):
        job.save(rank, 2, f"step-2/{rank}.pt", at=2.1)
        job.file(f"step-2/{rank}.pt", at=2.2)
    job.file("step-2/recover.py", at=2.3)
    job.step(3, at=3)
    newest = job.newest()
    assert newest.files == ("step-2/0.pt", "step-2/1.pt", "step-2/recover.py")
    assert newest.written == ("step-2/0.pt", "step-2/1.pt")


def test_of_what_was_renamed_nothing_is_known_to_have_been_written_by_a_save(job):
    two_saves(job)
    assert job.newest().written == ()


@pytest.mark.parametrize(
    ("first", "copied"),
    [
        ({"net.w": "1f", "step": "=2", "saves": "=1"}, True),
        ({"net.w": "1e", "step": "=2"}, False),
        ({"step": "=2"}, False),
    ],
)
def test_of_two_copies_the_last_is_what_a_resume_takes(job, first, copied):
    """The same tensors; not other ones, and not none at all."""
    for n in (1, 2):
        job.step(n, at=n)
    for at, path, content in ((2.1, "best.pt", first), (2.4, "last.pt", {"net.w": "1f", "step": "=2"})):
        job.save(0, 2, path, at=at, content=content)
        job.file(path, at=at + 0.1)
    job.step(3, at=3)
    newest = job.newest()
    assert newest.files == ("best.pt", "last.pt")
    assert newest.written == (("last.pt",) if copied else ("best.pt", "last.pt"))
    assert newest.copies == ({"last.pt": ("best.pt",)} if copied else {})
    (job.out / "last.pt").unlink()
    assert job.newest().written == ("best.pt",)


def test_a_directory_that_was_saved_twice_has_copies_file_by_file(job):
    for n in (1, 2):
        job.step(n, at=n)
    for at, path in ((2.1, "step-2"), (2.4, "last")):
        job.save(0, 2, path, at=at, content={"net.w": "1f"})
        for name in ("model.pt", "deep/rest.pt"):
            job.file(f"{path}/{name}", at=at + 0.1)
    job.step(3, at=3)
    assert job.newest().written == ("last/deep/rest.pt", "last/model.pt")
    copies = {"last/model.pt": ("step-2/model.pt",), "last/deep/rest.pt": ("step-2/deep/rest.pt",)}
    assert job.newest().copies == copies


def published(job, *names, link=True, path="tmp.pt"):
    """Each rank's steps and one save, which the job publishes under these names: hard links, or copies."""
    for n in (1, 2):
        job.step(n, at=n)
    job.save(0, 2, path, at=2.1)
    job.file(names[0], at=2.2)
    for other in names[1:]:
        if link:
            os.link(job.out / names[0], job.out / other)
        else:
            (job.out / other).write_bytes((job.out / names[0]).read_bytes())
            job.stamp(job.out / other, 2.4)
    job.step(3, at=3)
    return job.newest()


@pytest.mark.parametrize("link", [True, False])
def test_a_checkpoint_under_several_names_has_copies(job, link):
    """Whichever name a resume reads, and whichever a fault picks, it must be the same damaged bytes."""
    newest = published(job, "last.pt", "epoch-2.pt", "best.pt", link=link)
    assert newest.files == ("best.pt", "epoch-2.pt", "last.pt")
    assert {name: set(others) for name, others in newest.copies.items()} == {
        "best.pt": {"epoch-2.pt", "last.pt"},
        "epoch-2.pt": {"best.pt", "last.pt"},
        "last.pt": {"best.pt", "epoch-2.pt"},
    }


def test_what_was_copied_beside_the_file_that_the_save_wrote_is_its_copy(job):
    newest = published(job, "last.pt", "best.pt", link=False, path="last.pt")
    assert newest.written == ("last.pt",)
    assert newest.copies["last.pt"] == ("best.pt",)


def test_equal_files_that_ranks_wrote_themselves_are_no_copies(job):
    """Two ranks may hold the same: each has its own part of the checkpoint."""
    for n in (1, 2):
        job.step(n, at=n)
    for rank in (0, 1):
        job.save(rank, 2, f"step-2/{rank}.pt", at=2.1)
        job.file(f"step-2/{rank}.pt", at=2.2)
        (job.out / f"step-2/{rank}.pt").write_bytes(b"alike")
        job.stamp(job.out / f"step-2/{rank}.pt", 2.2)
    job.step(3, at=3)
    assert job.newest().copies == {}


def test_another_file_of_the_same_size_and_an_empty_one_are_no_copies(job):
    newest = published(job, "last.pt", path="last.pt")
    for name in ("note.txt", "done", "also"):
        (job.out / name).write_bytes(b"NOTES.x" if name == "note.txt" else b"")
        job.stamp(job.out / name, 2.4)
    newest = job.newest()
    assert set(newest.files) == {"last.pt", "note.txt", "done", "also"}
    assert newest.copies == {}
