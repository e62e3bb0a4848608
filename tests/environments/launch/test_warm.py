"""Warm launches come and go like cold ones: who cannot be warm, who owns whom, and what is left when somebody dies."""

from __future__ import annotations

import os
import signal
import site
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import chaoskit
from chaoskit.environments.launch import warm
from chaoskit.environments.launch.launcher import LaunchEnd
from chaoskit.environments.launch.warm import WarmLauncher
from chaoskit.environments.machine import processes
from chaoskit.errors import CannotWarm
from tests.environments.launch.stage import (
    LIMIT,
    PYTHON,
    TORCHRUN,
    WARM,
    ended,
    environ,
    forker,
    parent,
    ranks,
    runs,
    sockets,
)  # fmt: skip

#: Each rank says that it is up, and whether it was forked; then it waits for a file.
WAITS = """
import os, sys, time
how = "forked" if "chaoskit.environments.launch.fresh" in sys.modules else "fresh"
name = "up-" + os.environ.get("RANK", "x") + "-" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
open(name + ".part", "w").write(f"{os.getpid()} {how}")
os.rename(name + ".part", name)
while not os.path.exists("go"):
    time.sleep(0.01)
"""


def told(stage, name):
    """The pid of a process of WAITS, and how it came into being; None while it is not up."""
    path = stage.place / name
    if not path.exists():
        return None
    pid, how = path.read_text().split()
    return int(pid), how


@pytest.fixture
def up(stage, until):
    """Start WAITS and wait until these have said that they are up."""
    launches = []

    def begin(command, *names, text=WAITS, **options):
        command = [*command, stage.script(text)]
        launches.append(stage.start(command, **options))
        for name in names:
            until(lambda name=name: told(stage, name), timeout=LIMIT)
        return launches[-1]

    yield begin
    for launch in launches:
        launch.close()


def parent_of(launch):
    """The warm parent, which is the keeper's parent."""
    return parent(parent(launch.process.pid))


@pytest.mark.parametrize("name", ["sitecustomize", "usercustomize"])
def test_who_customizes_the_start_of_an_interpreter_is_launched_cold(stage, name):
    (stage.place / f"{name}.py").write_text("print('customized')")
    program = stage.script("print('ran')")
    for path in (".", ":elsewhere"):
        outcome = stage.play([PYTHON, program], launcher=WarmLauncher(), PYTHONPATH=path)
        assert outcome.how.startswith("cold: ") and f"{name}.py must run" in outcome.how
        if name == "sitecustomize":  # a venv has no usercustomize
            assert outcome.text == "customized\nran\n"
    with pytest.raises(CannotWarm, match=f"{name}.py must run"):
        stage.play([PYTHON, program], PYTHONPATH=".")


def test_the_probe_customizes_nothing(stage):
    site = str(Path(chaoskit.__file__).parent / "probe" / "site")
    assert stage.play([PYTHON, stage.script("")], PYTHONPATH=site).how == "warm"


@pytest.mark.parametrize("name", ["COVERAGE_PROCESS_START", "COV_CORE_SOURCE"])
def test_what_measures_a_process_from_its_start_is_heeded(stage, name):
    program = stage.script("")
    outcome = stage.play([PYTHON, program], launcher=WarmLauncher(), **{name: "x"})
    assert outcome.how.startswith(f"cold: {name} is set")
    with pytest.raises(CannotWarm, match=name):
        stage.play([PYTHON, program], **{name: "x"})


def test_another_interpreter_has_a_parent_of_its_own(stage, tmp_path):
    """It has our packages here, but is told by its own prefix, which a fork of ours would not have."""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    packages = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (packages / "others.pth").write_text("".join(f"{path}\n" for path in site.getsitepackages()))
    other = str(tmp_path / "venv" / "bin" / "python")
    outcome = stage.play([other, stage.script("import sys; print(sys.prefix)")])
    assert (outcome.how, outcome.text.strip()) == ("warm", str(tmp_path / "venv"))


def test_what_only_a_fresh_interpreter_can_heed_is_started_afresh(stage):
    base = os.path.realpath(PYTHON)
    outcome = stage.play([base, stage.script("import sys; print(sys.prefix)")], launcher=WarmLauncher())
    assert outcome.how == "cold: torch cannot be imported"
    assert outcome.text.strip() != sys.prefix
    outcome = stage.play([PYTHON, "-c", "print(1)"], launcher=WarmLauncher())
    assert (outcome.how[:29], outcome.text) == ("cold: the interpreter gets -c", "1\n")
    with pytest.raises(CannotWarm, match="no program 'absent'"):
        stage.play(["absent"])


def test_a_parent_that_must_not_be_forked_is_not(stage):
    """One package starts a thread; another one that begins anew in each fork; the last cannot be imported, which is no
    reason: whoever wants it will say so."""
    (stage.place / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    )
    (stage.place / "broken.py").write_text("raise SystemExit('broken')")
    (stage.place / "tireless.py").write_text(
        "import threaded, threading\n"
        "with open(f'/proc/self/task/{threading.enumerate()[1].native_id}/comm', 'w') as comm:\n"
        "    comm.write('jemalloc_bg_thd')"
    )
    program = stage.script("print('ran')")
    for modules, how in (
        (("threaded",), "cold: a module that the job imports starts threads (2 now)"),
        (("tireless",), "warm"),
        (("broken",), "warm"),
    ):
        launcher = WarmLauncher(modules, threads="1")
        outcome = stage.play([PYTHON, program], launcher=launcher, PYTHONPATH=".")
        assert outcome.how.startswith(how)
        assert (outcome.end, outcome.text) == (LaunchEnd(0), "ran\n")


def test_a_parent_that_has_an_accelerator_open_is_not_forked():
    code = "from chaoskit.environments.launch import forkserver as it\n"
    code += "it._ACCELERATORS = ('/dev/null',)\nprint(it._unfit())"
    done = subprocess.run(
        [PYTHON, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert done.stdout == "a module that the job imports opens an accelerator (/dev/null), which a fork cannot share\n"


#: For a parent that the tests beside us do not share: it will be killed.
VICTIM = {"ITS_OWN": f"victim of {os.getpid()}"}


def test_the_next_launch_has_a_new_parent_if_the_old_one_was_killed(stage, until, up):
    launch = up([PYTHON], "up-x-0", **VICTIM)
    old = parent_of(launch)
    os.kill(old, signal.SIGKILL)
    until(lambda: not runs(old), timeout=LIMIT)
    assert launch.ended() is None
    (stage.place / "go").touch()
    assert ended(launch) == LaunchEnd(0)
    launch.close()
    (stage.place / "go").unlink()
    (stage.place / "up-x-0").unlink()
    launch = up([PYTHON], "up-x-0", **VICTIM)
    assert launch.how == "warm"
    assert runs(parent_of(launch)) and parent_of(launch) != old


def test_nobody_misses_a_parent_that_is_killed_while_a_job_starts(stage, up):
    launch = up([*TORCHRUN, "2"], "up-0-0", **VICTIM)
    os.kill(parent_of(launch), signal.SIGKILL)
    (stage.place / "go").touch()
    assert ended(launch) == LaunchEnd(0)


def test_ranks_are_children_of_the_agent_and_survivors_never_the_forker(stage, up):
    launch = up([*TORCHRUN, "2"], "up-0-0", "up-1-0")
    agent, (first, one), (second, two) = launch.process.pid, told(stage, "up-0-0"), told(stage, "up-1-0")
    assert (one, two) == ("forked", "forked")
    assert sorted(ranks(agent)) == sorted([first, second])
    helper = forker(agent)
    assert all(os.getsid(pid) == pid for pid in (helper, first, second))
    stopped = {each["pid"]: each["rank"] for each in launch.stop()}
    assert stopped == {agent: None, first: 0, second: 1}
    assert not any(runs(pid) for pid in (agent, helper, first, second))


def test_an_agent_without_its_forker_starts_its_ranks_afresh(stage, until, up):
    text = (
        WAITS + "\nif os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and os.environ['RANK'] == '0': sys.exit(1)"
    )
    launch = up([*TORCHRUN, "2", "--max-restarts", "1"], "up-0-0", "up-1-0", text=text)
    helper = forker(launch.process.pid)
    os.kill(helper, signal.SIGKILL)
    until(lambda: not runs(helper), timeout=LIMIT)
    (stage.place / "go").touch()
    assert ended(launch) == LaunchEnd(0)
    assert [told(stage, f"up-{rank}-{restart}")[1] for restart in (0, 1) for rank in (0, 1)] == [
        "forked", "forked", "fresh", "fresh",
    ]  # fmt: skip


def test_an_elastic_restart_is_warm_too(stage, up):
    text = (
        WAITS + "\nif os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and os.environ['RANK'] == '1': sys.exit(1)"
    )
    (stage.place / "go").touch()
    launch = up([*TORCHRUN, "2", "--max-restarts", "1"], "up-0-1", "up-1-1", text=text)
    assert ended(launch) == LaunchEnd(0)
    assert {told(stage, f"up-{rank}-1")[1] for rank in range(2)} == {"forked"}


def test_ranks_do_not_outlive_their_agent(stage, up):
    launch = up([*TORCHRUN, "2"], "up-0-0", "up-1-0", launcher=replace(WARM, grace=0.2))
    pids = [told(stage, f"up-{rank}-0")[0] for rank in range(2)]
    helper = forker(launch.process.pid)
    os.kill(launch.process.pid, signal.SIGKILL)
    end = ended(launch)
    assert end.code == -signal.SIGKILL
    assert {each["pid"]: each["rank"] for each in end.survivors} == {pids[0]: 0, pids[1]: 1}
    assert not any(runs(pid) for pid in (helper, *pids))


def test_letting_go_ends_a_parent_that_nobody_else_needs(stage, until, up):
    launch = up([PYTHON], "up-x-0", ITS_OWN=stage.run_id)
    mine = parent_of(launch)
    assert runs(mine)
    warm.let_go()
    until(lambda: not runs(mine), timeout=LIMIT)
    assert launch.ended() is None
    (stage.place / "go").touch()
    assert ended(launch) == LaunchEnd(0)
    warm.let_go()


HARNESS = """
import os, sys
from pathlib import Path
from chaoskit.environments.launch.order import Order
from chaoskit.environments.launch.warm import WarmLauncher
here, name = Path(sys.argv[1]), sys.argv[2]
env = {key: os.environ[key] for key in sys.argv[3].split(",")}
order = Order(
    sys.argv[4:], env=env, cwd=here, log=here / f"log-{name}", tmp=here / "tmp", run_id=env["CHAOSKIT_ID"]
)
launch = WarmLauncher(threads="1", demanded=True).start(order)
print(launch.process.pid, flush=True)
sys.stdin.read()
launch.close()
"""


@pytest.fixture
def harness(stage):
    """Start another harness, which launches this; it and the pid of its command. The tests do not share its parent."""
    begun = []

    def begin(name, *command):
        env = stage.environ(ITS_OWN=stage.run_id)
        words = [sys.executable, "-c", HARNESS, str(stage.place), name, ",".join(env), *command]
        ours = {**os.environ, **env, "PYTHONPATH": str(Path(chaoskit.__file__).parent.parent)}
        begun.append(subprocess.Popen(words, env=ours, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return begun[-1], int(begun[-1].stdout.readline())

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def test_nothing_outlives_a_harness_that_is_killed(stage, harness, until):
    (stage.place / "tmp").mkdir()
    stage.script(WAITS)
    killed, agent = harness("a", *TORCHRUN, "2", "prog.py")
    until(lambda: all(told(stage, f"up-{rank}-0") for rank in range(2)), timeout=LIMIT)
    keeper = parent(agent)
    left = [agent, keeper, parent(keeper), forker(agent), *ranks(agent)]
    assert len(left) == 6 and all(runs(pid) for pid in left)
    addresses = sockets(parent(keeper))
    assert any(f"@chaoskit-{os.getuid()}-" in each for each in addresses)
    killed.kill()
    until(lambda: not any(runs(pid) for pid in left), timeout=LIMIT)
    until(lambda: not (stage.place / "tmp").exists(), timeout=LIMIT)
    assert not addresses & sockets()


def test_two_harnesses_share_a_parent_until_the_last_of_them_leaves(stage, harness, until):
    stage.script(WAITS)
    (first, one), (second, two) = (harness(name, PYTHON, "prog.py") for name in "ab")
    shared = parent(parent(one))
    assert parent(parent(two)) == shared
    assert environ(shared)["ITS_OWN"] == stage.run_id and "CHAOSKIT_ID" not in environ(shared)
    first.communicate()
    assert not runs(one) and runs(two) and runs(shared)
    second.communicate()
    until(lambda: not runs(shared), timeout=LIMIT)
    assert processes.marked(stage.run_id) == []


def test_a_parent_that_became_unfit_for_one_client_forks_for_none(monkeypatch):
    """All harnesses of a user share a parent: what one has it import, the others learn as they ask for a fork."""
    from chaoskit.environments.launch import forkserver

    monkeypatch.setattr(forkserver, "_unfit", lambda: "it opens an accelerator")
    ours, theirs = socket.socketpair()
    reader, writer = os.pipe()
    server = forkserver.ForkServer(socket.socket())
    server._answer(forkserver.Client(theirs, os.getpid()), {"import": []})
    server._answer(forkserver.Client(theirs, os.getpid(), fds=[writer]), {"keep": "run"})
    assert ours.recv(1000).splitlines() == [b'{"unfit":"it opens an accelerator"}'] * 2
    assert os.read(reader, 1) == b""  # its end was closed
    os.close(reader)


def test_a_parent_that_has_asked_for_cuda_devices_is_not_forked():
    code = "import torch; from chaoskit.environments.launch import forkserver as it\n"
    code += "torch.cuda._is_in_bad_fork = lambda: True\nprint(it._unfit())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "asks for the CUDA devices" in done.stdout, done.stderr
