"""What is removed lies in the directory that was given, whatever links lie in the way."""

from __future__ import annotations

import os

import pytest

from chaoskit.files.removal import empty, lies_in, move, must_lie_in, remove, remove_if_empty


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store" / "runs" / "one" / "out").mkdir(parents=True)
    return tmp_path / "store"


@pytest.fixture
def precious(tmp_path):
    (tmp_path / "elsewhere" / "out").mkdir(parents=True)
    (tmp_path / "elsewhere" / "out" / "model.pt").write_bytes(b"years of work")
    yield tmp_path / "elsewhere"
    assert (tmp_path / "elsewhere" / "out" / "model.pt").read_bytes() == b"years of work"


def test_a_directory_goes_with_its_content_and_says_what_it_freed(store):
    out = store / "runs" / "one" / "out"
    (out / "deep" / "er").mkdir(parents=True)
    (out / "deep" / "big").write_bytes(bytes(100_000))
    os.link(out / "deep" / "big", store / "shared")
    (out / "deep" / "own").write_bytes(bytes(200_000))
    removed = remove(store / "runs" / "one", within=store)
    assert not (store / "runs" / "one").exists() and removed.left == []
    assert 200_000 <= removed.freed < 290_000, "what another name still holds is not free"
    assert remove(store / "runs" / "one", within=store).freed == 0


def test_a_link_goes_and_not_what_it_leads_to(store, precious):
    (store / "runs" / "linked").symlink_to(precious)
    (store / "runs" / "one" / "out" / "inner").symlink_to(precious / "out")
    assert remove(store / "runs" / "linked", within=store).left == []
    assert remove(store / "runs" / "one", within=store).left == []
    assert not os.path.lexists(store / "runs" / "linked") and not (store / "runs" / "one").exists()


def test_no_link_on_the_way_is_followed(store, precious):
    link = store / "runs" / "linked"
    link.symlink_to(precious)
    removed = remove(link / "out", within=store)
    assert removed.freed == 0 and removed.left == [f"{link / 'out'}: Not a directory"]
    assert not remove_if_empty(link / "out", within=store)
    with pytest.raises(OSError, match="Not a directory"):
        empty(link / "out", within=store)
    with pytest.raises(OSError, match="Not a directory"):
        empty(link, within=store)
    with pytest.raises(OSError, match="Not a directory"):
        must_lie_in(link / "out" / "model.pt", store)
    with pytest.raises(OSError, match="Not a directory"):
        must_lie_in(link / "new" / "model.pt", store, make=True)
    with pytest.raises(OSError, match="Not a directory"):
        move(link / "out", store / "out", within=store, into=store)
    assert not lies_in(link, store) and not lies_in(link / "out", store)
    assert lies_in(store / "runs" / "one", store) and not lies_in(store / "absent", store)
    assert not (precious / "new").exists()


@pytest.mark.parametrize("path", [".", "..", "../elsewhere/out", "runs/../../elsewhere/out"])
def test_what_does_not_lie_below_is_refused(store, precious, path):
    with pytest.raises(ValueError):
        remove(store / path, within=store)


def test_the_directory_itself_may_be_behind_a_link(store, tmp_path):
    (tmp_path / "also").symlink_to(store)
    assert remove(tmp_path / "also" / "runs" / "one", within=tmp_path / "also").left == []
    assert not (store / "runs" / "one").exists()


def test_a_directory_is_emptied_and_stays(store):
    out = store / "runs" / "one" / "out"
    (out / "deep").mkdir()
    (out / "file").touch()
    before = out.stat().st_ino
    empty(out, within=store)
    assert list(out.iterdir()) == [] and out.stat().st_ino == before


def test_a_move_makes_the_directories_above(store):
    (store / "aside").mkdir()
    move(store / "runs" / "one", store / "aside" / "deep" / "one", within=store, into=store / "aside")
    assert (store / "aside" / "deep" / "one" / "out").is_dir() and not (store / "runs" / "one").exists()


def test_what_may_not_be_removed_is_named_and_the_rest_goes(store, monkeypatch):
    out = store / "runs" / "one" / "out"
    (out / "locked").mkdir()
    (out / "locked" / "file").touch()
    (out / "open").touch()

    def refuse(name, *, dir_fd):
        if name == "file":
            raise PermissionError(13, "Permission denied")
        unlink(name, dir_fd=dir_fd)

    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", refuse)
    removed = remove(store / "runs" / "one", within=store)
    assert removed.left == [f"{out / 'locked' / 'file'}: Permission denied"]
    assert not (out / "open").exists() and (out / "locked" / "file").exists()


def test_directories_in_directories_have_an_end(store):
    place = os.open(store / "runs" / "one", os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=place)
        place, before = os.open("d", os.O_RDONLY, dir_fd=place), place
        os.close(before)
    os.close(place)
    (left,) = remove(store / "runs" / "one", within=store).left
    assert left.endswith("more than 200 directories lie in each other")
