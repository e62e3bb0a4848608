"""The storage of a job on virtual hosts: one file system for all of them, which knows where a request comes from."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from chaoskit.capabilities import CanFailStorage, CanShowDirectory, InjectedIOError
from chaoskit.environments.environment import Ended
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.netns.environment import NetnsEnvironment
from chaoskit.nodes import NodeLossPolicy, Nodes
from chaoskit.protocol.io_journal import Journal
from tests.users import as_root_only, must_have, repeat

#: Writes a file named after its node and its launch; what came of it is in a file beside `{out}`.
WRITES = """
import os, sys
out, told = sys.argv[1:]
name = os.environ["CHAOSKIT_NODE"] + "-" + os.environ["CHAOSKIT_LAUNCH"]
try:
    with open(os.path.join(out, name), "w") as file:
        file.write("written")
    said = "written"
except OSError as error:
    said = os.strerror(error.errno)
with open(os.path.join(told, name), "w") as file:
    file.write(said + "\\n" + " ".join(sorted(os.listdir(out))))
"""


@pytest.fixture(autouse=True)
def storage_here(request, hosts_here):
    must_have(request, NetnsEnvironment.storage_available())


@pytest.fixture
def begin(place):
    made = []

    def make(**given):
        nodes = Nodes(2, 2, "", NodeLossPolicy(lost="returns"))
        spec = replace(place, gated=False, nodes=nodes, **{"storage": "watched", **given})
        made.append(NetnsEnvironment(spec, ColdLauncher(grace=0.3)))
        return made[-1].__enter__()

    yield make
    for each in made:
        each.__exit__(None, None, None)


@pytest.fixture
def write(place):
    """Have both nodes write; what each said, and what it then found in `{out}`."""

    def launch(env, index):
        env.launch(index, [sys.executable, "-I", "-S", "-c", WRITES, str(place.out), str(place.cwd)])
        while not any(isinstance(each, Ended) for each in env.wait(10)):
            pass
        told = [(place.cwd / f"node{number}-{index}").read_text().split("\n") for number in range(2)]
        return [said for said, _ in told], [set(found.split()) for _, found in told]

    return launch


def test_what_it_has_to_give():
    assert issubclass(NetnsEnvironment, CanFailStorage) and issubclass(NetnsEnvironment, CanShowDirectory)
    assert NetnsEnvironment.traits.storage_per_node and "recorded" in NetnsEnvironment.traits.storage


def test_both_hosts_have_one_storage_and_the_journal_tells_of_both(begin, place, write):
    env = begin(storage="recorded")
    said, _ = write(env, 0)
    assert said == ["written", "written"]
    assert sorted(path.name for path in env.out().iterdir()) == ["node0-0", "node1-0"]
    _, found = write(env, 1)
    assert all({"node0-0", "node1-0"} <= each for each in found), "what one host wrote the other one finds"
    written = {each.path for each in Journal.read(place.run_dir).operations if each.kind == "write"}
    assert written == {"node0-0", "node1-0", "node0-1", "node1-1"}


@pytest.mark.parametrize(("nodes", "said"), [
    (("node1",), ["written", "No space left on device"]),
    (("node0",), ["No space left on device", "written"]),
    (("node0", "node1"), ["No space left on device"] * 2),
    ((), ["No space left on device"] * 2),
])  # fmt: skip
def test_the_disk_is_full_for_some_hosts(begin, write, nodes, said):
    env = begin()
    number = env.fail_storage(InjectedIOError(operations=("create", "write"), error="ENOSPC", nodes=nodes))
    assert write(env, 0)[0] == said
    met = env.storage_met(number)
    assert met["count"] >= said.count("No space left on device")
    assert all(f.split("-")[0] in (nodes or ("node0", "node1")) for f in met["files"])
    env.mend_storage(number)
    assert write(env, 1)[0] == ["written", "written"]


def test_a_host_that_came_back_is_still_known(begin, write, place):
    env = begin()
    number = env.fail_storage(InjectedIOError(operations=("create",), error="EIO", nodes=("node1",)))
    env.launch(0, ["sleep", "1000"])
    env.lose_node("node1")
    env.stop()
    env.hosts.make("node1")
    env.introduce("node1")
    assert write(env, 1)[0] == ["written", "Input/output error"]
    assert env.storage_met(number)["count"] == 1


def test_another_directory_is_shown_to_hosts_that_are_up(begin, place, write, tmp_path):
    env = begin(storage="")
    shown = tmp_path / "shown"
    for index, name in enumerate(("first", "second")):
        shown.mkdir()
        (shown / name).touch()
        env.show(shown)
        _, found = write(env, index)
        assert all(name in each for each in found)
        assert {path for _, path in env.looked_at()}
        env.hide()
        assert {path.name for path in shown.iterdir()} == {name, f"node0-{index}", f"node1-{index}"}
        shown.rename(tmp_path / f"was-{name}")
    assert list(place.out.iterdir()) == []
    said, found = write(env, 2)
    assert said == ["written"] * 2 and (place.out / "node0-2").exists()


@as_root_only
@pytest.mark.slow
def test_all_of_it_as_an_ordinary_user(request):
    repeat(request, __file__, "-m", "not slow")
