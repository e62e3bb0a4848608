"""Moving to a virtual host: what changes for a process, what stays, and that a fork moves like a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaoskit.environments.launch.host import KINDS, enter
from chaoskit.environments.launch.launcher import LaunchEnd
from chaoskit.environments.launch.order import Order
from chaoskit.environments.machine import processes
from chaoskit.environments.netns.client import NetnsClient
from chaoskit.environments.netns.environment import NetnsEnvironment
from tests.environments.launch.stage import COLD, LIMIT, PYTHON, WARM, ended
from tests.users import IS_ROOT, as_root_only, must_have, repeat

#: What a process can tell of where it is and of what it may do.
TELLS = """
import ctypes, json, os, socket, sys
prctl = ctypes.CDLL(None).prctl
dies_with = ctypes.c_int()
prctl(2, ctypes.byref(dies_with))
with open("/proc/self/status") as file:
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
told = {name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")}
told |= {"umask": status["Umask"], "ids": [os.getresuid(), os.getresgid(), os.getgroups()]}
told |= {"dumpable": prctl(3), "keeps capabilities": prctl(7), "secure": prctl(27), "dies with": dies_with.value}
told |= {"namespaces": {name: os.readlink("/proc/self/ns/" + name) for name in sorted(os.listdir("/proc/self/ns"))}}
told |= {"host": socket.gethostname(), "links": socket.if_nameindex(), "address": socket.gethostbyname("node0")}
told |= {"cwd": os.getcwd(), "shm": os.listdir("/dev/shm"), "tmp": os.stat("/tmp").st_ino}
told |= {"environ": os.stat("/proc/self/environ").st_uid, "files": sorted(os.listdir("/proc/self/fd"))}
"""
BY_PID = ("pid", "pid_for_children")


@pytest.fixture(scope="module")
def host(request, tmp_path_factory):
    """A host of its own, `node0`."""
    must_have(request, NetnsEnvironment.available())
    names = tmp_path_factory.mktemp("host") / "hosts"
    names.write_text("127.0.0.1 localhost\n10.77.0.1 node0\n")
    board = NetnsClient("test")
    yield board.ask("add", name="node0", number=0, names=str(names))["host"]
    board.close()


def tell(*, host=None, cwd, code=TELLS):
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code + "print(json.dumps(told))"],
        preexec_fn=(lambda: enter(host, str(cwd))) if host else None, cwd=cwd, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_who_enters_a_host_is_there_and_remains_who_he_is(host, tmp_path):
    code = TELLS.replace('socket.gethostbyname("node0")', "None")
    outside, inside = tell(cwd=tmp_path, code=code), tell(host=host, cwd=tmp_path, code=code)
    moved = {kind for kind, link in inside["namespaces"].items() if outside["namespaces"][kind] != link}
    assert moved == {"net", "mnt", "uts"} | ({"user"} & set(host))
    assert all(inside["namespaces"][kind] == os.readlink(host[kind]) for kind in host)
    for name in ("namespaces", "host", "links", "shm"):
        outside.pop(name)
    assert inside.pop("host") == "node0"
    assert [name for _, name in inside.pop("links")] == ["lo", "eth0"] and inside.pop("shm") == []
    inside.pop("namespaces")
    if "user" in host and IS_ROOT:  # of a container that may not make them: he is root there, and nowhere else
        for told in (outside, inside):
            for name in ("CapPrm", "CapEff", "CapBnd"):
                told.pop(name)
    assert inside.pop("CapBnd", 0) == outside.pop("CapBnd", 0) or "user" in host
    assert inside == outside
    assert inside["cwd"] == str(tmp_path)


@pytest.mark.skipif(IS_ROOT, reason="root may do everything anyway")
def test_an_ordinary_user_may_do_no_more_there_than_here(host, tmp_path):
    told = tell(host=host, cwd=tmp_path)
    assert {told[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    renames = "import ctypes, json; told = ctypes.CDLL(None).sethostname(b'x', 1)\n"
    assert tell(host=host, cwd=tmp_path, code=renames) == -1


def test_who_has_entered_a_host_is_seen_from_outside(host, tmp_path, run_id, until):
    """By who it belongs to; the processes of a node are found by their environment."""
    guest = subprocess.Popen(
        ["sleep", "1000"], env={**os.environ, "CHAOSKIT_ID": run_id, "CHAOSKIT_NODE": "node0"},
        preexec_fn=lambda: enter(host, str(tmp_path)),
    )  # fmt: skip
    try:
        # Its environment can be read by others once it has become its program.
        until(lambda: processes.marked(run_id, node="node0") == [processes.identify(guest.pid)])
        assert os.readlink(f"/proc/{guest.pid}/cwd") == str(tmp_path)
        processes.send(processes.identify(guest.pid), 9)
        assert guest.wait() == -9
    finally:
        guest.kill()
        guest.wait()


@pytest.mark.parametrize("broken", [{"net": "/proc/self/ns/none"}, {"uts": "/etc/hosts"}])
def test_what_is_no_host_is_an_error(host, tmp_path, broken):
    code = "import runpy, sys, os\nenter = runpy.run_path(sys.argv[1])['enter']\n"
    code += f"try:\n    enter({ {**host, **broken}!r}, '/')\nexcept OSError as error:\n    print(error)"
    from chaoskit.environments.launch import host as module

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, module.__file__], capture_output=True, text=True, check=True
    )
    assert "No such file" in done.stdout or "Invalid argument" in done.stdout


def test_a_host_that_is_gone_cannot_be_started_on(tmp_path, run_id, host):
    from chaoskit.errors import UsageError

    gone = dict.fromkeys(host, "/proc/self/ns/none")
    with pytest.raises(UsageError, match="cannot start 'sleep'"):
        COLD.start(order(["sleep", "1"], tmp_path, run_id, gone, log=tmp_path / "log"))
    assert set(KINDS) >= set(host)


def order(command, place, run_id, host, *, log, env=None):
    env = env or {"PATH": os.environ["PATH"]}
    return Order(command, env={**env, "CHAOSKIT_ID": run_id}, cwd=place, log=log, run_id=run_id, host=host)


@pytest.mark.launches
def test_a_fork_is_on_a_host_what_a_fresh_process_is(stage, run_id, host, until):
    there = Path(f"/proc/{os.getpid()}/environ").stat().st_uid
    name = stage.script(
        f"import torch\n{TELLS}\nimport time\n"
        "told |= {'marks': [os.environ['CHAOSKIT_ID']], 'how': 'chaoskit.environments.launch.fresh' in sys.modules}\n"
        "told |= {'pid': os.getpid()}\n"
        "open(sys.argv[1] + '.part', 'w').write(json.dumps(told))\n"
        "os.rename(sys.argv[1] + '.part', sys.argv[1])\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
    )
    launches, told = {}, {}
    with ExitStack() as undo:
        for how, launcher in (("cold", COLD), ("warm", WARM)):
            log = stage.place / f"log-{how}"
            asked = order([PYTHON, name, how], stage.place, run_id, host, log=log, env=stage.environ())
            launches[how] = launcher.start(asked)
            undo.callback(launches[how].close)
        for how, launch in launches.items():
            file = stage.place / how
            until(lambda file=file, launch=launch: file.exists() or launch.ended(), timeout=LIMIT)
            assert file.exists(), (stage.place / f"log-{how}").read_text()
            told[how] = json.loads(file.read_text())
        marked = {process.pid for process in processes.marked(run_id)}
        assert {each["pid"] for each in told.values()} <= marked, "who moves without an exec is hidden from us"
        (stage.place / "go").touch()
        assert [ended(launch) for launch in launches.values()] == [LaunchEnd(0), LaunchEnd(0)]
    assert (told["cold"].pop("how"), told["warm"].pop("how")) == (False, True)
    for each in told.values():
        assert each.pop("pid") != os.getpid()
        assert (each["host"], each["cwd"], each["environ"]) == ("node0", str(stage.place), there)
    assert told["cold"] == told["warm"]


@as_root_only
@pytest.mark.slow
def test_all_of_it_as_an_ordinary_user(request):
    repeat(request, __file__)
