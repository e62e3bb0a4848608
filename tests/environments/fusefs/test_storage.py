"""The storage of a job: whatever it is written in is seen, and nothing of it is left, however things end."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.capabilities import CanFailStorage, InjectedIOError
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.environments import ENVIRONMENTS
from chaoskit.environments.fusefs import storage as storage_module
from chaoskit.environments.fusefs.storage import Storage, trial
from chaoskit.environments.local.environment import LocalEnvironment
from chaoskit.environments.machine.helper_process import HelperRefused
from chaoskit.errors import ChaoskitError, MissingCapability, UsageError
from chaoskit.job import Job
from chaoskit.protocol.io_journal import Journal
from tests.environments.fusefs.mounted import RUN_ID, Replay, left_of, mounted, tree
from tests.users import as_root_only, must_have, repeat

PYTHON = [sys.executable, "-I", "-S", "-c"]
REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _possible(request):
    must_have(request, trial())


@pytest.fixture
def made(tmp_path):
    with mounted(tmp_path) as storage:
        yield storage


def wrote(made, name):
    """The bytes of a file, put together from what the journal says was written to it."""
    content = bytearray()
    for each in made.journal.operations:
        if each.kind == "write" and Path(each.path).name == name:
            content.extend(bytes(max(0, each.offset + each.size - len(content))))
            content[each.offset : each.offset + each.size] = made.journal.bytes_of(each)
    return bytes(content)


# Whoever writes.


def test_a_child_process_is_seen(made):
    code = 'import subprocess, sys; subprocess.run([sys.executable, \'-c\', \'open("c", "w").write("child")\'])'
    made.run(*PYTHON, code)
    assert (wrote(made, "c"), (made.out / "c").read_bytes()) == (b"child", b"child")
    assert len({each.process for each in made.journal.operations}) == 1


CPP = r"""
#include <fstream>
#include <string>
#include <thread>
#include <vector>
int main() {
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; n++)
        threads.emplace_back([n] {
            std::ofstream file("part-" + std::to_string(n), std::ios::binary);
            std::string block(300000, 'a' + n);
            for (int i = 0; i < 10; i++) file << block;
        });
    for (auto& thread : threads) thread.join();
    return rename("part-0", "whole");
}
"""


def test_a_writer_in_cpp_with_threads_is_seen(made, tmp_path):
    assert shutil.which("g++"), "g++ is needed: apt-get install g++"
    (tmp_path / "writer.cpp").write_text(CPP)
    program = str(tmp_path / "writer")
    subprocess.run(["g++", "-O1", "-pthread", "-o", program, str(tmp_path / "writer.cpp")], check=True)
    made.run(program)
    assert Replay(made.journal).tree() == tree(made.out)
    assert (made.out / "whole").read_bytes() == b"a" * 3_000_000
    assert len({each.thread for each in made.journal.operations if each.kind == "write"}) == 4


TORCH = """
import io, os, torch, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict_saver import save
state = {"w": torch.arange(500_000, dtype=torch.float32), "b": torch.zeros(3)}
torch.save(state, "path.pt")
with open("object.pt", "wb") as file:
    torch.save(state, file)
    file.flush()
    os.fsync(file.fileno())
dcp.save(state, checkpoint_id="sharded", no_dist=True)
try:
    from safetensors.torch import load_file, save_file
    save_file(state, "whole.safetensors")
    assert torch.equal(load_file("whole.safetensors")["w"], state["w"])
except ImportError:
    pass
for name in ("path.pt", "object.pt"):
    for options in ({}, {"mmap": True}):
        assert torch.equal(torch.load(name, weights_only=True, **options)["w"], state["w"])
loaded = {"w": torch.zeros(500_000), "b": torch.ones(3)}
dcp.load(loaded, checkpoint_id="sharded", no_dist=True)
assert torch.equal(loaded["w"], state["w"])
"""


@pytest.mark.launches
def test_what_torch_saves_is_seen_and_can_be_loaded(made):
    made.run(sys.executable, "-c", TORCH)
    for name in ("path.pt", "object.pt"):
        assert wrote(made, name) == (made.out / name).read_bytes()
    assert Replay(made.journal).tree() == tree(made.out)
    shard = next(path.name for path in (made.out / "sharded").glob("*.distcp"))
    named = [each.kind for each in made.journal.operations if shard in (each.path, each.to) or shard in each.path]
    assert {"create", "write", "fsync"} <= set(named)


def test_what_is_only_watched_keeps_no_bytes(tmp_path):
    with mounted(tmp_path, recorded=False) as made:
        made.run(*PYTHON, "open('a', 'wb').write(b'x' * 3000000)")
        assert {each.data for each in made.journal.operations} == {None}
    assert not (tmp_path / "journal" / "data").exists()


# However it ends.


def test_nothing_is_left_when_it_is_closed(tmp_path):
    with mounted(tmp_path) as made:
        keeper = made.storage._helper.process.pid
        guest = made.start("sleep", "1000")
        try:
            assert {str(keeper), str(guest.pid)} == set(left_of())
            made.storage.close()
            made.storage.close()
            assert left_of() == [str(guest.pid)]
            assert os.listdir(made.out) == []
        finally:
            guest.kill()
            guest.wait()
    assert left_of() == [] and not Path(f"/proc/{keeper}").exists()


HARNESS = """
import os, signal, subprocess, sys
from pathlib import Path
from chaoskit.environments.fusefs.storage import Storage
from chaoskit.environments.launch.host import enter
place = Path(sys.argv[1])
storage = Storage(sys.argv[2], out=place / "out", run_dir=place, recorded=True)
code = "n = 0\\nf = open('a', 'wb', buffering=0)\\nwhile True: f.write(bytes(200_000)); n += 1"
job = subprocess.Popen([sys.executable, "-c", code], preexec_fn=lambda: enter(storage.host, str(place / "out")))
bystander = os.fork()  # it has all that the harness has open
if bystander == 0:
    signal.pause()
print(storage._helper.process.pid, job.pid, bystander, flush=True)
signal.pause()
"""


def test_nothing_is_left_when_the_harness_is_killed(tmp_path, until):
    (tmp_path / "out").mkdir()
    command = [sys.executable, "-c", HARNESS, str(tmp_path), RUN_ID]
    harness = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    keeper, job, bystander = (int(word) for word in harness.stdout.readline().split())
    try:
        until(lambda: (tmp_path / "out" / "a").exists() and (tmp_path / "out" / "a").stat().st_size > 1 << 20)
        harness.kill()
        harness.wait()
        until(lambda: not Path(f"/proc/{keeper}").exists())
        # The keeper of a launch would end the job; here it ends by itself, for its file system is gone.
        until(lambda: left_of() in ([], [str(bystander)]))
        Journal.read(tmp_path)
    finally:
        for pid in (job, bystander):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        harness.kill()
        harness.communicate()
    until(lambda: left_of() == [])


def test_a_storekeeper_that_is_killed_is_missed_and_leaves_the_truth(made, until):
    code = (
        "f = open('a', 'wb', buffering=0)\nf.write(b'x' * 2_000_000)\ninput()\nwhile True: f.write(b'x' * 100_000)"
    )
    guest = made.start(*PYTHON, code, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: any(each.kind == "write" for each in Journal.read(made.run_dir).operations))
    guest.stdin.write("\n")
    guest.stdin.flush()
    until(lambda: (made.out / "a").stat().st_size > 1 << 22)
    made.storage._helper.process.kill()
    _, said = guest.communicate(timeout=20)
    assert guest.returncode == 1 and "Error" in said
    made.storage._helper.process.wait(20)  # its files are closed one by one, and the guest's was among the first
    with pytest.raises(ChaoskitError, match=r"the file system server has ended.*exit code -9"):
        made.storage.must_stand()
    with pytest.raises(ChaoskitError, match="the file system server has ended"):
        made.storage.fail(InjectedIOError(error="EIO"))
    journal = Journal.read(made.run_dir)
    assert [each.n for each in journal.operations] == list(range(len(journal.operations)))
    (content, _) = Replay(journal).tree()["a"]
    assert (made.out / "a").read_bytes().startswith(content) and len(content) > 1 << 19


# Where there is none.


@pytest.mark.parametrize(
    ("number", "text", "says"),
    [
        (errno.EACCES, "begin: [Errno 13] Permission denied: '/dev/fuse'", "chmod 666 /dev/fuse"),
        (errno.ENOENT, "begin: [Errno 2] No such file or directory: '/dev/fuse'", "modprobe fuse"),
        (errno.ENODEV, "begin: [Errno 19] No such device: '/dev/fuse'", "--device /dev/fuse"),
    ],
)
def test_it_is_said_what_would_help(number, text, says):
    assert says in storage_module._why_not(HelperRefused(text, number=number))


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="out"):
        Storage(RUN_ID, out=tmp_path / "out", run_dir=tmp_path)
    assert left_of() == []


def test_who_has_it_to_give():
    for kind in ENVIRONMENTS.values():
        fails = any(kind.traits.storage) or kind.traits.plain_fails
        assert issubclass(kind, CanFailStorage) == fails, kind.traits.name


def test_a_runner_asks_before_it_begins(tmp_path, monkeypatch):
    job = Job("no-such-script.py")
    with_storage = {name: kind for name, kind in ENVIRONMENTS.items() if any(kind.traits.storage)}
    assert len(with_storage) == 3
    for name, kind in with_storage.items():
        monkeypatch.setattr(kind, "storage_available", staticmethod(lambda: "no such luck"))
        with pytest.raises(MissingCapability, match="no such luck") as caught:
            Runner(Store(tmp_path), environment=name).run(job, storage="recorded")
        assert caught.value.capability == "CanFailStorage"
    with pytest.raises(UsageError, match="storage"):
        Runner(Store(tmp_path)).run(job, storage="sometimes")


# In the environment.

WRITES = [sys.executable, "-I", "-S", "-c", "import sys\nwith open(sys.argv[1] + '/a', 'w') as f: f.write('text')"]


def test_a_launch_is_in_it_and_the_harness_is_not(place, until):
    with LocalEnvironment(replace(place, storage="recorded")) as env:
        number = env.fail_storage(InjectedIOError(operations=("write",), error="EIO"))
        for index in range(2):
            env.launch(index, [*WRITES, str(place.out)])
            (ended,) = env.wait(10)
            assert ended.code == (1, 0)[index], (place.run_dir / "logs" / f"launch-{index}.log").read_text()
            env.mend_storage(number)
        assert env.storage_met(number)["files"] == ["a"]
        assert (env.out() / "a").read_text() == "text"
    assert [each.kind for each in Journal.read(place.run_dir).operations] == ["create", "truncate", "write"]
    assert left_of(f"chaoskit-{place.run_id}") == []


def test_a_plain_directory_cannot_fail(place):
    with LocalEnvironment(place) as env:
        for ask in (lambda: env.fail_storage(InjectedIOError(error="EIO")), lambda: env.mend_storage(1)):
            with pytest.raises(LookupError, match="plain directory"):
                ask()
    assert not (place.run_dir / "journal").exists()


def test_the_environment_says_that_its_storage_is_gone(place):
    with LocalEnvironment(replace(place, storage="watched")) as env:
        env.launch(0, ["sleep", "1000"])
        env.run.storage._helper.process.kill()
        with pytest.raises(ChaoskitError, match="the file system server has ended"):
            env.wait(10)
    assert left_of(f"chaoskit-{place.run_id}") == []


@pytest.mark.launches
@pytest.mark.parametrize("how", [pytest.param("cold", marks=pytest.mark.slow), "warm"])
def test_a_real_job_is_seen_whole(shared_store, how):
    from chaoskit import checks, faults

    trainer = REPOSITORY / "tests" / "trainers" / "simple.py"
    job = Job(str(trainer), ["--out", "{out}"], nproc_per_node=2)
    runner = Runner(shared_store, launch=how)
    run = runner.run(job, faults.kill(rank=1).at_step(20), storage="recorded")
    (verdict, *_) = run.judge(checks.matches_reference())
    assert verdict.outcome.value == "pass", verdict.sentence
    assert Replay(run_journal := Journal.read(run.dir)).tree() == tree(run.dir / "out")
    assert len({each.session for each in run_journal.operations}) >= 2, "each incarnation of a rank is a session"
    assert left_of(f"chaoskit-{json.loads((run.dir / 'run.json').read_text())['id']}") == []


def test_held_requests_do_not_keep_a_launch_from_being_ended(place, until):
    with LocalEnvironment(replace(place, storage="watched")) as env:
        number = env.fail_storage(InjectedIOError(operations=("write",)))
        env.launch(0, [*WRITES, str(place.out)])
        until(lambda: env.storage_met(number)["count"] == 1)
        begun = time.monotonic()
        assert len(env.stop()) == 1
        assert time.monotonic() - begun < 5


@as_root_only
@pytest.mark.slow
def test_all_of_it_as_an_ordinary_user(request):
    repeat(request, __file__, "-m", "not slow")
