"""What has run out is named with what to do, and nothing else is taken for it."""

from __future__ import annotations

import errno
import os
import resource

import pytest

from chaoskit.engine.run_store import Store
from chaoskit.engine.shortage import shortage
from chaoskit.errors import ExitCode, StoreError, UsageError


def of(number, filename=None):
    return OSError(number, os.strerror(number), filename)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (of(errno.ENOSPC, "/tmp/x"), "the disk is full (/tmp/x): make room, or run 'chaoskit clean --all'"),
        (of(errno.EDQUOT), "the disk is full: make room, or run 'chaoskit clean --all'"),
        (of(errno.EFBIG, "/x"), "a file may not grow any more (/x): raise the limit of sizes (ulimit -f)"),
        (of(errno.EMFILE), "chaoskit may open no more files: raise the limit (ulimit -n)"),
        (of(errno.EAGAIN), "chaoskit could start no more processes: raise the limit (ulimit -u)"),
        (of(errno.ENOMEM), "the kernel had no memory left for chaoskit: run fewer experiments at once"),
        (MemoryError(), "chaoskit had no memory left: run fewer experiments at once"),
        (StoreError("the disk under /s is full", exit_code=ExitCode.EXHAUSTED), "the disk under /s is full"),
    ],
    ids=lambda value: getattr(value, "strerror", None) or type(value).__name__,
)
def test_what_has_run_out(error, said):
    assert shortage(error).startswith(said)
    wrapped = UsageError("cannot make the temporary directory")
    wrapped.__cause__ = error
    assert shortage(wrapped) == shortage(error)


@pytest.mark.parametrize("error", [of(errno.ENOENT), ValueError(), UsageError("x"), StoreError("it is damaged")])
def test_nothing_has_run_out(error):
    assert shortage(error) is None


def test_an_error_that_only_came_before_does_not_count():
    try:
        try:
            raise MemoryError
        except MemoryError:
            raise ValueError from None
    except ValueError as error:
        assert shortage(error) is None


def test_a_store_whose_files_may_not_grow(tmp_path):
    store = Store(tmp_path / ".chaoskit")
    store.prepare()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(StoreError) as caught:
            store.new_run(job={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.exit_code is ExitCode.EXHAUSTED and "File too large" in str(caught.value)
    assert [path for path in store.root.rglob("*") if path.is_file()] == [store.root / ".gitignore"]
