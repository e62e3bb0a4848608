"""A file is replaced as a whole, and is for its user alone."""

from __future__ import annotations

import os
import stat

import pytest

from chaoskit.files.whole_files import replace_file, usual_mode


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_new_file_is_private_whatever_the_umask(tmp_path, umask):
    replace_file(tmp_path / "run.json", b"{}")
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o600


def test_what_is_for_others_has_the_mode_of_the_umask(tmp_path, umask):
    replace_file(tmp_path / "page.html", b"<p>", mode=usual_mode())
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o666 & ~umask
    assert os.umask(umask) == umask


def test_the_old_file_stays_where_the_new_one_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "run.json").write_bytes(b"old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        replace_file(tmp_path / "run.json", b"new")
    assert os.listdir(tmp_path) == ["run.json"] and (tmp_path / "run.json").read_bytes() == b"old"


def test_a_link_is_replaced_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "precious").write_bytes(b"old")
    (tmp_path / "run.json").symlink_to(tmp_path / "precious")
    replace_file(tmp_path / "run.json", b"new")
    assert (tmp_path / "precious").read_bytes() == b"old" and (tmp_path / "run.json").read_bytes() == b"new"
