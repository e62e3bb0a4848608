"""What is asked of Chaos Mesh for an error of the storage, and what proves it; the agents are played here."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from chaoskit import faults
from chaoskit.capabilities import InjectedIOError
from chaoskit.environments.kubernetes.api_kinds import IO_CHAOS
from chaoskit.environments.kubernetes.chaos import io_specs
from chaoskit.environments.kubernetes.chaos.chaos_pods import ChaosLimits
from chaoskit.environments.kubernetes.chaos.felt_storage import FeltStorage
from chaoskit.environments.kubernetes.chaos.pod_storage import METHODS, PodStorage
from chaoskit.faults.fault import action_traits
from chaoskit.faults.storage.fail_storage import OPERATIONS
from tests.environments.kubernetes.chaos.test_pod_links import PlayedPods, there

EROFS = InjectedIOError(operations=("create", "write", "chmod"), error="EROFS")


class StoredPods(PlayedPods):
    """Their requests fail with these errors, by node."""

    errors: dict[str, int] = {}  # noqa: RUF012

    def ask(self, node, request, **given):
        if request == "error_of_write":
            return self.errors.get(node, 0)
        return super().ask(node, request, **given)


@pytest.fixture
def pods(run, running, connection):
    for node in range(2):
        running(node)
    made = StoredPods(run, connection, ("node0", "node1"))
    made.errors = {}
    return made


@pytest.fixture
def run_dir(tmp_path):
    for name in ("logs", "events", "out"):
        (tmp_path / "run" / name).mkdir(parents=True)
    return tmp_path / "run"


@pytest.fixture
def storage(pods, mesh, run_dir):
    made = PodStorage(pods, volume=run_dir, out=run_dir / "out", limits=ChaosLimits(60, 5, 2))
    yield made
    made.close()


def says(run_dir, text, name="logs/launch-0.log"):
    with (run_dir / name).open("a") as file:
        file.write(text + "\n")


def test_each_node_has_a_fault_of_the_calls_that_are_meant(storage, pods, run_dir):
    number = storage.fail(EROFS)
    specs = [one["spec"] for one in there(pods, IO_CHAOS)]
    assert [spec["errno"] for spec in specs] == [errno.EROFS] * 2
    assert {spec["volumePath"] for spec in specs} == {str(run_dir)}
    assert {spec["path"] for spec in specs} == {f"{run_dir}/out/**/*"}
    assert specs[0]["methods"] == ["create", "mknod", "write", "setattr"] and specs[0]["percent"] == 100
    storage.mend(number)
    storage.mend(99)
    assert there(pods, IO_CHAOS) == []


def test_every_kind_of_request_has_calls_that_chaos_mesh_knows():
    assert set(METHODS) == set(OPERATIONS)
    assert {each for own in METHODS.values() for each in own} <= set(io_specs.METHODS)


def test_it_counts_once_the_job_says_so_and_a_request_of_ours_fails(storage, pods, run_dir):
    says(run_dir, "[Errno 30] of an earlier save")
    number = storage.fail(EROFS)
    assert storage.met(number)["count"] == 0
    pods.errors["node1"] = errno.EROFS
    assert storage.met(number)["count"] == 0, "the job has said nothing since"
    says(run_dir, "going on: [Errno 30] Read-only file system: 'x'")
    says(run_dir, '{"e":"save.end","ok":false,"error":"OSError: Read-only file system"}', "events/rank0.jsonl")
    assert storage.met(number)["count"] == 2 and storage.met(number)["failing"] == ["node1"]
    storage.mend(number)
    pods.errors.clear()
    assert storage.met(number)["count"] == 2, "what was seen stays"


def test_a_claim_alone_counts_nothing(storage, pods, run_dir, mesh):
    mesh.lies = True
    number = storage.fail(EROFS)
    says(run_dir, "[Errno 30] Read-only file system")
    pods.errors = {"node0": errno.EIO}
    assert all(claim["conditions"]["AllInjected"] for claim in storage.faults.claims())
    assert storage.met(number)["count"] == 0, "another error has other causes"


def test_a_fresh_pod_gets_the_fault_of_its_node(storage, pods):
    storage.fail(replace(EROFS, nodes=("node1",)))

    def uid():
        (one,) = there(pods, IO_CHAOS)
        return one["metadata"]["uid"]

    before = uid()
    storage.came_up("node0")
    assert uid() == before
    storage.came_up("node1")
    assert uid() != before


@pytest.mark.parametrize(
    "more",
    [{"times": 1}, {"after_bytes": 9}, {"seconds": 1.0}, {"files": "a/*"}, {"late": True}, {"error": None}],
    ids=str,
)
def test_what_picks_requests_is_not_asked_for(storage, pods, more):
    with pytest.raises(LookupError, match="cannot count or delay"):
        storage.fail(replace(EROFS, **more))
    assert there(pods, IO_CHAOS) == []


def test_a_line_counts_once_it_is_whole(run_dir):
    felt = FeltStorage(run_dir, "ENOSPC")
    log = run_dir / "logs" / "launch-0.log"
    log.write_text("no: [Errno 28")
    assert felt.look() == 0
    log.write_text("no: [Errno 28]\nNo space left on device\n[Errno 280]\n")
    assert felt.look() == 2 and felt.look() == 2 and felt.lines == ["no: [Errno 28]", "No space left on device"]


def test_which_faults_pick_requests():
    picks = [
        faults.disk_full(after_bytes=5, launches=0), faults.io_error(), faults.quota(files="*.pt", launches=0),
        faults.slow_storage(delay=1, times=1, launches=0), faults.late_names(delay=1, launches=0),
        faults.storage_gone(seconds=1),
    ]  # fmt: skip
    gone = faults.storage_gone(error="ESTALE", launches=0)
    whole = [gone, faults.read_only(launches=0), faults.disk_full(launches=0), faults.kill(rank=0)]
    assert all(action_traits(fault.action).picks_requests for fault in picks)
    assert not any(action_traits(fault.action).picks_requests for fault in whole)
