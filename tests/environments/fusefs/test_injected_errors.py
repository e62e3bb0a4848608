"""Troubles: which requests meet them, that the job sees it, and that nothing is wrong any more once it is mended."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from chaoskit.capabilities import InjectedIOError
from chaoskit.environments.fusefs.injected_errors import MODIFYING, InjectedIOErrors, matches
from chaoskit.environments.fusefs.storage import trial
from tests.environments.fusefs.mounted import mounted
from tests.users import as_root_only, must_have, repeat

CREATE = os.O_RDWR | os.O_CREAT
WRITE = os.O_WRONLY | os.O_CREAT


@pytest.fixture
def made(tmp_path, request):
    must_have(request, trial())
    with mounted(tmp_path, recorded=False) as storage:
        yield storage


# Which requests meet one.


def meets(troubles, kind, path, size=0):
    try:
        troubles.meet(kind, (path,), unique=1, thread=0, size=size)
    except OSError as error:
        return error.errno
    return None


def test_by_kind_and_name():
    troubles = InjectedIOErrors()
    made = troubles.fail(InjectedIOError(operations=("write", "create"), files="*.pt", error="EIO"))
    assert meets(troubles, "write", "step-1/model.pt") == 5
    assert meets(troubles, "create", "other.pt") == 5
    assert meets(troubles, "read", "step-1/model.pt") is meets(troubles, "write", "latest") is None
    told = {"count": 2, "operations": {"write": 1, "create": 1}, "files": ["step-1/model.pt", "other.pt"]}
    assert troubles.met(made) == told
    troubles.mend(made)
    assert meets(troubles, "write", "a.pt") is None
    assert (troubles.met(made), troubles.any) == (told, False)
    troubles.mend(made)
    troubles.mend(99)
    with pytest.raises(LookupError):
        troubles.met(99)


@pytest.mark.parametrize(
    ("path", "pattern", "does"),
    [("a/b", "b", True), ("a/b", "a/*", True), ("a/b", "a", False), ("", "*", True), ("", "latest", False),
     ("latest", "latest", True), ("A", "a", False)],
)  # fmt: skip
def test_names(path, pattern, does):
    assert matches(path, pattern) is does


def test_after_so_many_bytes_and_so_many_times():
    troubles = InjectedIOErrors()
    made = troubles.fail(InjectedIOError(operations=("write",), files="a*", error="ENOSPC", after_bytes=10, times=2))
    assert meets(troubles, "write", "a", 10) is None
    troubles.wrote("b", 100)
    troubles.wrote("a", 8)
    assert meets(troubles, "write", "ab", 2) is None
    assert [meets(troubles, "write", "ab", 3) for _ in range(3)] == [28, 28, None]
    assert troubles.met(made)["count"] == 2


def test_every_request_and_every_modifying_one():
    troubles = InjectedIOErrors()
    made = troubles.fail(InjectedIOError(error="EIO"))
    assert {meets(troubles, kind, "a") for kind in (*MODIFYING, "read", "list", "fsync", "lookup")} == {5}
    troubles.mend(made)
    troubles.fail(InjectedIOError(operations=MODIFYING, error="EROFS"))
    assert [meets(troubles, kind, "a") for kind in ("read", "open", "mkdir", "chmod")] == [None, None, 30, 30]


# What the job sees.


def test_a_disk_that_is_full_and_freed_later(made):
    actor = made.actor()
    actor("open", slot="1", path="a", flags=WRITE)
    before = actor("space")
    number = made.storage.fail(InjectedIOError(operations=("write", "create"), error="ENOSPC", after_bytes=100))
    assert actor("write", slot="1", text="x", times=100) == 100
    assert actor("space") == [0, 0]
    assert actor("write", slot="1", text="x", times=1) == "ENOSPC"
    assert actor("write", slot="1", text="x", times=1 << 18) == "ENOSPC"
    assert actor("open", slot="2", path="b", flags=WRITE) == "ENOSPC"
    assert (made.out / "a").stat().st_size == 100
    assert made.storage.met(number) == {"count": 3, "operations": {"write": 2, "create": 1}, "files": ["a", "b"]}
    assert [each.kind for each in made.journal.operations] == ["create", "write"], "what failed never happened"
    made.storage.mend(number)
    assert actor("space")[0] > before[0] / 2
    assert actor("write", slot="1", text="x", times=1) == 1


def test_a_quota_that_only_the_pointer_hits(made):
    actor = made.actor()
    made.storage.fail(InjectedIOError(operations=("rename",), files="latest", error="EDQUOT", times=1))
    for name in ("a", "b"):
        actor("open", slot="1", path=name, flags=WRITE)
    assert actor("rename", path="a", to="other") is None
    assert actor("rename", path="b", to="latest") == "EDQUOT"
    assert actor("rename", path="b", to="latest") is None
    assert actor("space") != [0, 0]


def test_a_storage_that_is_read_only(made):
    actor = made.actor()
    actor("open", slot="1", path="a", flags=CREATE)
    actor("write", slot="1", text="text")
    number = made.storage.fail(InjectedIOError(operations=MODIFYING, error="EROFS"))
    assert actor("read", slot="1", size=9, at=0) == "text"
    assert actor("list", path=".") == ["a"]
    tries = [
        actor("write", slot="1", text="x"), actor("open", slot="2", path="b", flags=WRITE), actor("mkdir", path="d"),
        actor("ftruncate", slot="1", size=0), actor("unlink", path="a"), actor("rename", path="a", to="c"),
        actor("link", path="a", to="c"), actor("symlink", path="s", to="a"), actor("chmod", path="a", mode=0o600),
        actor("truncate", path="a", size=1), actor("open", slot="2", path="a", flags=os.O_WRONLY | os.O_TRUNC),
        actor("fallocate", slot="1", size=5000),
    ]  # fmt: skip
    assert set(tries) == {"EROFS"}
    made.storage.mend(number)
    assert actor("unlink", path="a") is None


@pytest.mark.parametrize(
    ("kind", "does"),
    [
        ("open", {"do": "open", "slot": "2", "path": "a", "flags": os.O_RDONLY}),
        ("lookup", {"do": "stat", "path": "a"}),
        ("read", {"do": "read", "slot": "1", "size": 3, "at": 0}),
        ("list", {"do": "list", "path": "."}),
        ("space", {"do": "space"}),
        ("fsync", {"do": "fsync", "slot": "1"}),
        ("fsyncdir", {"do": "fsync_directory", "path": "."}),
        ("rmdir", {"do": "rmdir", "path": "d"}),
    ],
)
def test_each_kind_of_request_can_fail(made, kind, does):
    actor = made.actor()
    actor("mkdir", path="d")
    actor("open", slot="1", path="a", flags=CREATE)
    actor("write", slot="1", text="text")
    actor("open", slot="1", path="a", flags=CREATE)  # what an open finds in memory is not believed
    number = made.storage.fail(InjectedIOError(operations=(kind,), error="EIO"))
    assert actor(**does) == "EIO"
    assert set(made.storage.met(number)["operations"]) == {kind}
    made.storage.mend(number)
    assert actor(**does) != "EIO"


def test_a_storage_that_is_slow(made):
    actor = made.actor()
    actor("open", slot="1", path="a", flags=WRITE)
    number = made.storage.fail(InjectedIOError(operations=("write",), seconds=0.3, times=2))
    begun = time.monotonic()
    assert [actor("write", slot="1", text="x") for _ in range(3)] == [1, 1, 1]
    assert time.monotonic() - begun >= 0.6
    assert made.storage.met(number)["count"] == 2


def test_a_storage_that_is_gone_for_a_while_holds_nobody_else_up(made, until):
    held, others = [made.actor() for _ in range(8)], made.actor()
    for at, actor in enumerate(held):
        actor("open", slot="1", path=f"held-{at}", flags=WRITE)
    number = made.storage.fail(InjectedIOError(files="held-*"))
    for actor in held:
        actor.tell("write", slot="1", text="text")
    until(lambda: made.storage.met(number)["count"] == 8)
    others("open", slot="1", path="other", flags=WRITE)
    assert others("write", slot="1", text="x") == 1
    assert not any((made.out / f"held-{at}").stat().st_size for at in range(8))
    made.storage.mend(number)
    assert [actor.hear() for actor in held] == [4] * 8


def test_who_is_killed_while_his_request_is_held_dies_at_once(made, until):
    actor = made.actor()
    actor("open", slot="1", path="a", flags=WRITE)
    number = made.storage.fail(InjectedIOError(operations=("write", "fsync")))
    actor.tell("write", slot="1", text="text")
    until(lambda: made.storage.met(number)["count"] == 1)
    os.kill(actor.process.pid, signal.SIGKILL)
    begun = time.monotonic()
    assert actor.process.wait(10) == -signal.SIGKILL
    assert time.monotonic() - begun < 5
    made.storage.mend(number)
    assert (made.out / "a").read_text() == ""
    assert "write" not in made.kinds(), "a request that was given up never happened"


def test_a_signal_that_does_not_kill_is_no_reason_to_give_up(made, until):
    code = (
        "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: print('caught', flush=True)); "
        "f = open('a', 'wb', buffering=0); print(f.write(b'text'))"
    )
    number = made.storage.fail(InjectedIOError(operations=("write",)))
    process = made.start(sys.executable, "-I", "-S", "-c", code, stdout=-1)
    until(lambda: made.storage.met(number)["count"] == 1)
    process.send_signal(signal.SIGUSR1)
    time.sleep(0.2)
    assert process.poll() is None
    made.storage.mend(number)
    assert process.communicate(timeout=10)[0].split() == ["caught", "4"]
    assert (made.out / "a").read_text() == "text"


def test_names_that_others_learn_late(made):
    maker, other = made.actor(alone=True), made.actor(alone=True)
    number = made.storage.fail(InjectedIOError(seconds=1.0, late=True))
    begun = time.monotonic()
    maker("mkdir", path="d")
    maker("open", slot="1", path="d/a", flags=WRITE)
    maker("rename", path="d/a", to="d/b")
    assert (maker("exists", path="d/b"), maker("list", path=".")) == (True, ["d"])
    seen = (other("exists", path="d"), other("list", path="."))
    assert time.monotonic() - begun > 0.9 or seen == (False, [])
    while not other("exists", path="d"):
        assert time.monotonic() - begun < 10
        time.sleep(0.05)
    assert time.monotonic() - begun >= 0.9
    met = made.storage.met(number)
    assert met["operations"]["lookup"] >= 1 and met["operations"]["list"] >= 1 and met["files"] == ["d"]
    time.sleep(1.0)
    assert other("list", path="d") == ["b"]
    maker("open", slot="1", path="e", flags=WRITE)
    assert not other("exists", path="e")
    made.storage.mend(number)
    assert other("exists", path="e")


def test_who_is_told_that_a_name_exists_has_learnt_it(made):
    """As with NFS: or `os.makedirs(..., exist_ok=True)` would fail."""
    maker, other = made.actor(alone=True), made.actor(alone=True)
    made.storage.fail(InjectedIOError(seconds=60, late=True))
    maker("mkdir", path="d")
    assert other("exists", path="d") is False
    assert other("mkdir", path="d") == "EEXIST"
    assert other("exists", path="d") is True
    maker("unlink", path="d")
    maker("rmdir", path="d")
    assert other("exists", path="d") is False


@as_root_only
@pytest.mark.slow
def test_all_of_it_as_an_ordinary_user(request):
    repeat(request, __file__, "-m", "not slow")
