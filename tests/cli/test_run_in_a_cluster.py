"""`chaoskit run --env kubernetes` as a user types it: real torchrun in pods of a team's image, on two nodes."""

from __future__ import annotations

import json

import pytest

from chaoskit.errors import ExitCode
from tests.cli.runs_on_pods import RunsOnPods
from tests.docker_images import images
from tests.environments.kubernetes.conftest import connection  # noqa: F401

pytestmark = pytest.mark.launches
#: The cluster serves the kinds of Chaos Mesh, and has no controller that looks at their objects.
SKIPPED = "it needs Chaos Mesh, whose controller has not looked at a new NetworkChaos within 20 s"


@pytest.fixture
def run(machines, connection, tmp_path):  # noqa: F811
    """Runs experiments on two pods; returns the exit code and the results by name."""
    runs = RunsOnPods(machines, connection, tmp_path)

    def experiments(module, chosen, *args, options=()):
        command = ["torchrun", "--nproc-per-node", "1", str(runs.script), "--out", "{out}", *args]
        return runs.experiments(
            module, chosen, "--image", images.image(), "--nodes", "2", *options, command=command
        )

    return experiments


@pytest.mark.exhaustive
def test_a_good_trainer_passes_on_pods(run):
    code, found = run("tinymodels.train", "one_rank_mid_epoch or worker_node or (ridden_out and delay)")
    assert {name: each["verdict"] for name, each in found.items()} == {
        "test_one_rank_mid_epoch": "pass",
        "test_worker_node": "pass",
        "test_ridden_out[delay]": "skipped",
    }, found
    assert SKIPPED in json.dumps(found["test_ridden_out[delay]"])
    assert code == ExitCode.PASS


@pytest.mark.slow
def test_a_broken_trainer_is_caught_and_named_on_pods(run):
    code, found = run("tinymodels.gallery.rng_missing", "one_rank_mid_epoch")
    assert code == ExitCode.FAIL
    assert "rng-not-restored" in json.dumps(found["test_one_rank_mid_epoch"])


@pytest.mark.exhaustive
def test_a_good_trainer_passes_on_pods_that_cannot_connect_to_chaoskit(run, tmp_path, machines):
    """The address leads nowhere (RFC 5737), and chaoskit listens on its own machine alone."""
    (tmp_path / "pyproject.toml").write_text('[tool.chaoskit.kubernetes]\nchannel = "volume"\n')
    code, found = run("tinymodels.train", "worker_node", options=("--address", "192.0.2.1"))
    assert {name: each["verdict"] for name, each in found.items()} == {"test_worker_node": "pass"}, found
    assert code == ExitCode.PASS and not list(machines.volume.rglob("channel"))


PARTITIONS = "longer_than or shorter_than or one_way or connections_reset or (ridden_out and forget_names)"


@pytest.mark.exhaustive
def test_a_good_trainer_passes_on_pods_that_chaos_mesh_cuts_off(run, mesh_in_pods, machines):
    code, found = run("tinymodels.train", PARTITIONS, "--timeout", "6")
    assert {name: each["verdict"] for name, each in found.items()} == {
        "test_longer_than_the_timeout": "pass",
        "test_shorter_than_the_timeout": "pass",
        "test_one_way": "pass",
        "test_connections_reset": "skipped",
        "test_ridden_out[forget_names]": "pass",
    }, found
    assert "needs CanReset, which environment 'kubernetes' lacks" in json.dumps(found["test_connections_reset"])
    assert code == ExitCode.PASS
    # Both what Chaos Mesh said and what the job felt is in the record.
    ((_, evidence),) = [one for one in evidence_of(machines, "test_longer") if one[0] == "fault.observed"]
    assert any(evidence["lost"].values()) and not any(evidence["reaches"].values())
    assert [claim["conditions"]["AllInjected"] for claim in evidence["claimed"]] == [True, True]


@pytest.mark.exhaustive
def test_a_chaos_mesh_that_only_says_so_makes_no_pass(run, mesh_in_pods, machines):
    mesh_in_pods.lies = True
    code, found = run("tinymodels.train", "longer_than", "--timeout", "6")
    assert found["test_longer_than_the_timeout"]["verdict"] == "inconclusive", found
    assert found["test_longer_than_the_timeout"]["codes"] == ["fault-not-observed"]
    assert code == ExitCode.INCONCLUSIVE
    events = dict(evidence_of(machines, "test_longer"))
    assert "fault.observed" not in events
    assert all(claim["conditions"]["AllInjected"] for claim in events["fault.healed"]["claimed"])


LIMITS = '[tool.chaoskit.kubernetes]\nresources = {limits = {cpu = "700m", memory = "1200Mi"}}\n'
RESOURCES = ("--only", "resources")


@pytest.fixture
def limits(tmp_path):
    (tmp_path / "pyproject.toml").write_text(LIMITS)


@pytest.mark.exhaustive
def test_a_good_trainer_passes_on_pods_that_run_short(run, limits, mesh_in_pods, machines):
    code, found = run("tinymodels.train", "out_of_memory or straggler or slow_disk", options=RESOURCES)
    assert {name: each["verdict"] for name, each in found.items()} == {
        "test_out_of_memory": "pass",
        "test_straggler": "pass",
        "test_slow_disk": "skipped",
    }, found
    assert "needs CanLimitDisk, which environment 'kubernetes' lacks" in json.dumps(found["test_slow_disk"])
    assert code == ExitCode.PASS
    killed, slow = (observed(machines, name) for name in ("test_out_of_memory", "test_straggler"))
    # On a slow machine the kernel kills what takes the place of the victim too, before its memory is given back.
    assert killed["killed_by_kernel"] >= 1 and len(killed["gone"]) == 1 and killed["bytes"] == 1200 << 20
    assert slow["share"] < slow["before"]["share"] and slow["others"] > slow["processors"] and slow["stressors"] > 1
    for evidence in (killed, slow):
        (claim,) = evidence["claimed"]
        assert claim["kind"] == "StressChaos" and claim["conditions"]["AllInjected"]


@pytest.mark.exhaustive
def test_a_broken_trainer_is_caught_on_pods_that_run_out_of_memory(run, limits, mesh_in_pods):
    code, found = run("tinymodels.gallery.rng_missing", "out_of_memory", options=RESOURCES)
    assert code == ExitCode.FAIL
    assert "rng-not-restored" in json.dumps(found["test_out_of_memory"])


@pytest.mark.exhaustive
def test_stress_that_is_only_claimed_makes_no_pass(run, limits, mesh_in_pods, machines):
    mesh_in_pods.lies = True
    code, found = run("tinymodels.train", "out_of_memory or straggler", options=RESOURCES)
    assert {name: each["codes"] for name, each in found.items()} == {
        "test_out_of_memory": ["fault-not-observed"],
        "test_straggler": ["fault-not-observed"],
    }, found
    assert code == ExitCode.INCONCLUSIVE


CLOCKS = ("--only", "clocks")


@pytest.mark.exhaustive
def test_a_good_trainer_passes_on_pods_whose_clocks_jump(run, mesh_in_pods, machines):
    # The third one needs a reference of its own, and is run on virtual hosts.
    code, found = run("tinymodels.train", "clocks_set_back or of_one_node", "--timeout", "6", options=CLOCKS)
    assert {name: each["verdict"] for name, each in found.items()} == {
        "test_clocks_set_back": "pass",
        "test_clock_of_one_node": "pass",
    }, found
    assert code == ExitCode.PASS
    _, both = next(each for each in evidence_of(machines, "test_clocks_set_back") if each[0] == "fault.observed")
    one = observed(machines, "test_clock_of_one_node")
    assert {rank: round(off) for rank, off in both["ranks"].items()} == {"0": -600, "1": -600}
    # Which rank runs on which node, the rendezvous decides.
    sides = [[round(off) for off in one[side].values()] for side in ("ranks", "others")]
    assert sides == [[-600], [0]]
    claims = [*both["claimed"], *one["claimed"]]
    assert [claim["kind"] for claim in claims] == ["TimeChaos"] * 3
    assert all(claim["conditions"]["AllInjected"] for claim in claims)
    # No time of the record goes by a wall clock.
    assert found["test_clocks_set_back"]["recovery_seconds"] < 120


@pytest.mark.exhaustive
def test_a_trainer_that_goes_by_the_clock_is_caught_on_pods(run, mesh_in_pods):
    code, found = run("tinymodels.gallery.newest_by_clock", "clocks_set_back", "--keep", "99", options=CLOCKS)
    assert code == ExitCode.FAIL
    assert found["test_clocks_set_back"]["codes"] == ["stale-checkpoint"], found


@pytest.mark.exhaustive
def test_a_jump_that_is_only_claimed_makes_no_pass(run, mesh_in_pods, machines):
    mesh_in_pods.lies = True
    code, found = run("tinymodels.train", "clocks_set_back", options=CLOCKS)
    assert found["test_clocks_set_back"]["codes"] == ["fault-not-observed"], found
    assert code == ExitCode.INCONCLUSIVE
    events = dict(evidence_of(machines, "test_clocks_set_back"))
    assert {round(off) for off in events["fault.healed"]["ranks"].values()} == {0}
    assert all(claim["conditions"]["AllInjected"] for claim in events["fault.healed"]["claimed"])


def observed(machines, experiment):
    (evidence,) = [said for event, said in evidence_of(machines, experiment) if event == "fault.observed"]
    return evidence


def evidence_of(machines, experiment):
    """The evidence of the faults of an experiment, by event, in the record."""
    found = []
    for content in (machines.volume / "store" / "runs").glob("*/run.json"):
        if experiment in json.loads(content.read_text())["experiment"]:
            lines = (content.parent / "events" / "harness.jsonl").read_text().splitlines()
            events = [json.loads(line) for line in lines]
            found += [
                (one["e"], one["evidence"])
                for one in events
                if one["e"].startswith("fault.") and "evidence" in one
            ]
    return found
