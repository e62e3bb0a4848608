"""Where saves lie: their files under whatever name, directories of their own, and never what lies beside them."""

import pytest

from tests.environments.machine.files_of_saves import Job


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def saved(job, *steps, path, to, beside=(), recorded=True):
    """One rank saves after these steps to `path`; the file ends up at `to`; others are written at the same time."""
    for n in range(1, max(steps) + 2):
        job.step(n, at=n, ranks=[0])
    for n in steps:
        names = [to.format(n)] if isinstance(to, str) else [name.format(n) for name in to]
        for name in names:
            job.file(name, at=n + 0.2)
        sizes = {"": len(names[0])} if len(names) == 1 else {name.split("/")[-1]: len(name) for name in names}
        job.save(0, n, path.format(n), at=n + 0.1, files=sizes if recorded else None)
        for name in beside:
            job.file(name.format(n), at=n + 0.3)


def test_a_marker_beside_flat_files_is_not_one_of_them(job):
    saved(job, 2, 4, path="draft.tmp", to="step-{}.pt", beside=["began", "log"])
    assert job.paths() == ("step-2.pt", "step-4.pt")


def test_nor_in_a_directory_that_several_saves_share(job):
    saved(job, 2, 4, path="all/step-{}.pt", to="all/step-{}.pt", beside=["all/began"])
    assert job.paths() == ("all/step-2.pt", "all/step-4.pt")


def test_nor_beside_a_file_that_is_written_over(job):
    saved(job, 2, 4, path="all/now.pt", to="all/now.pt", beside=["all/began"])
    assert job.paths() == ("all/now.pt",)


def test_a_directory_of_its_own_goes_with_its_manifest(job):
    saved(job, 2, 4, path="all/step-{}/a.pt", to="all/step-{}/a.pt", beside=["all/step-{}/manifest", "all/began"])
    assert job.paths() == ("all/step-2", "all/step-4")


def test_it_is_the_same_one_when_it_is_made_again(job):
    saved(job, 2, 4, path="step-{}/a.pt", to="step-{}/a.pt", beside=["step-{}/manifest"])
    job.launch = 1
    job.step(1, at=11, ranks=[0])
    job.save(0, 1, "step-4/a.pt", at=11.1, files={"": len("step-4/a.pt")})
    job.file("step-4/a.pt", at=11.2)
    assert job.paths() == ("step-2", "step-4")


def test_a_directory_that_was_renamed(job):
    saved(job, 2, 4, path="all/.tmp", to=["all/step-{}/one", "all/step-{}/other"], beside=["all/began"])
    assert job.paths() == ("all/step-2", "all/step-4")


def test_a_file_to_which_something_was_added_before_it_was_renamed(job):
    saved(job, 2, path="draft", to="step-{}.pt", beside=["began"])
    path = job.out / "step-2.pt"
    path.write_text("step-2.pt and its checksum")
    job.stamp(path, 2.25)
    assert job.paths() == ("step-2.pt",)


def test_a_file_of_another_time_is_none_although_it_is_as_large(job):
    saved(job, 2, path="draft", to="step-{}.pt")
    job.file("other.txt", at=-50)
    assert len("other.txt") == len("step-2.pt") and job.paths() == ("step-2.pt",)


def test_copies_count(job):
    saved(job, 2, path="step-{}.pt", to="step-{}.pt")
    path = job.out / "best" / "1.pt"
    path.parent.mkdir()
    path.write_text("step-2.pt")
    job.stamp(path, 2.3)
    assert job.paths() == ("best", "step-2.pt")


def test_saves_into_the_directory_of_the_job_itself(job):
    saved(job, 2, path=".", to=["__0_0.distcp", ".metadata"], beside=["began"])
    assert job.paths() == (".metadata", "__0_0.distcp")


def test_a_save_that_was_interrupted_counts_too(job):
    saved(job, 2, path="step-{}.pt", to="step-{}.pt", beside=["began"])
    job.save(0, 3, "step-3.tmp", at=3.1, ends=False)
    job.file("step-3.tmp", at=3.2)
    job.file("log", at=3.3)
    assert job.paths() == ("step-2.pt", "step-3.tmp")
    (job.out / "step-3.tmp").unlink()
    assert job.paths() == ("step-2.pt",)


def test_where_the_record_does_not_say_what_was_written_the_time_does(job):
    saved(job, 2, path="draft", to="step-{}.pt", beside=["began"], recorded=False)
    assert job.paths() == ("began", "step-2.pt")


def test_a_run_without_saves_or_with_none_left(job):
    job.step(1, at=1)
    job.file("log", at=1)
    with pytest.raises(LookupError, match="no checkpoint"):
        job.paths()
    saved(job, 2, path="step-{}.pt", to="step-{}.pt", beside=["began"])
    (job.out / "step-2.pt").unlink()
    with pytest.raises(LookupError, match="none is left"):
        job.paths()
