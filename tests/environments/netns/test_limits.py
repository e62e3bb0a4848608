"""Where there are no virtual hosts: why, and what would help. And what cannot be run on several nodes."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit import Job, faults
from chaoskit.cli import doctor, main
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import Runner
from chaoskit.environments.netns import client, network
from chaoskit.environments.netns.client import HelperRefused, why_not
from chaoskit.environments.netns.environment import NetnsEnvironment
from chaoskit.errors import ExitCode, ReferenceFailed, UsageError
from tests.users import REPOSITORY, must_have

TRAINERS = REPOSITORY / "tests" / "trainers"
APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
CLONE = "/proc/sys/kernel/unprivileged_userns_clone"
MOST = "/proc/sys/user/max_user_namespaces"
FINE = {APPARMOR: "0", CLONE: "1", MOST: "1000"}


@pytest.mark.parametrize(
    ("number", "settings", "said"),
    [
        (errno.EPERM, {**FINE, APPARMOR: "1"}, "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
        (errno.EACCES, {**FINE, APPARMOR: "1"}, "AppArmor restricts"),
        (errno.EPERM, {**FINE, CLONE: "0"}, "sudo sysctl kernel.unprivileged_userns_clone=1"),
        (errno.ENOSPC, {**FINE, MOST: "0"}, "sudo sysctl user.max_user_namespaces=10000"),
        (errno.EUSERS, {MOST: "0"}, "no user namespaces are allowed on this machine"),
        (errno.ENOSPC, FINE, r"this machine has no more namespaces \(begin: it\): raise user.max_net_namespaces"),
        (errno.EPERM, FINE, r"here \(begin: it\): start a container with --security-opt seccomp=unconfined"),
        (errno.EPERM, {}, "or as one that may use user namespaces"),
        (errno.EINVAL, {**FINE, APPARMOR: "1"}, "the kernel has no user or network namespaces"),
        (errno.ENOSYS, {}, "use one that is built with them"),
        (errno.EIO, {**FINE, CLONE: "0"}, "^begin: it$"),
        (None, FINE, "^begin: it$"),
    ],
)
def test_what_forbids_namespaces_is_said_with_what_to_do(number, settings, said):
    with pytest.raises(UsageError, match=said):
        raise UsageError(why_not(HelperRefused("begin: it", number=number), settings=settings))


def test_settings_are_read_where_they_are(tmp_path, monkeypatch):
    files = {path: tmp_path / Path(path).name for path in (CLONE, MOST)}
    files[CLONE].write_text("0\n")
    known = tuple((str(files.get(path, tmp_path / "absent")), *rest) for path, *rest in client._SETTINGS)
    monkeypatch.setattr(client, "_SETTINGS", known)
    assert "unprivileged_userns_clone=1" in why_not(HelperRefused("it", number=errno.EPERM))


@pytest.mark.parametrize(
    ("present", "missing"), [((), ["iproute2", "nftables"]), (("ip",), ["nftables"]), (("nft",), ["iproute2"])]
)
def test_a_missing_tool_is_named_by_its_package(tmp_path, monkeypatch, present, missing):
    for name in present:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(network, "_PLACES", str(tmp_path))
    assert network.missing() == missing
    names = " ".join(missing)
    said = f"it needs {' and '.join(missing)}: apt-get install {names}, or the package of that name on your system"
    assert client.trial.__wrapped__() == said
    for tool, act in (("ip", network.ip), ("nft", network.nft)):
        if tool not in present:
            with pytest.raises(network.NetworkError, match=f"no '{tool}': install {network.PACKAGES[tool]}"):
                act("it")


def test_a_tool_that_fails_or_takes_forever_is_named(tmp_path, monkeypatch):
    for name, text in (("ip", "echo no such thing >&2; exit 2"), ("nft", "exec sleep 10")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(network, "_PLACES", str(tmp_path))
    monkeypatch.setattr(network, "_LIMIT", 0.2)
    monkeypatch.setenv("PATH", os.defpath)
    with pytest.raises(network.NetworkError, match=r"^ip: no such thing$"):
        network.ip("link")
    with pytest.raises(network.NetworkError, match=r"^nft: .*timed out"):
        network.nft("list")


def test_a_holder_that_cannot_run_is_a_reason_and_no_error_of_ours(monkeypatch):
    monkeypatch.setattr(network, "missing", list)  # what this machine lacks is not the question
    monkeypatch.setattr(client, "_SCRIPT", Path("/no/such/holder.py"))
    assert "netns helper has ended" in client.trial.__wrapped__()


def test_doctor_tells_of_it(monkeypatch):
    found = {each.what: each for each in doctor._environments()}["environment netns"]
    why = NetnsEnvironment.available()
    assert found.good == (why is None) and found.found.startswith(why or "available")
    monkeypatch.setattr(NetnsEnvironment, "available", staticmethod(lambda: "it needs a moon"))
    found = {each.what: each for each in doctor._environments()}["environment netns"]
    assert (found.good, found.found) == (False, "it needs a moon")


# For real: in a user namespace, whose limits are ours to set.


#: Whoever makes a user namespace may do everything there, unless he gives that up.
ROOT, ORDINARY = "", "setpriv --inh-caps=-all --ambient-caps=-all"
OURS = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps"]


@pytest.fixture
def limited(request, tmp_path):
    """Run a command where these limits are 0; its exit code and all that it said."""
    tools = [tool for tool in ("unshare", "setpriv") if shutil.which(tool) is None]
    must_have(request, f"it takes {tools[0]} (util-linux) to set limits" if tools else None)
    trial = subprocess.run([*OURS, "true"], capture_output=True, text=True)
    must_have(request, f"no user namespace to set limits in: {trial.stderr}" if trial.returncode else None)

    def run(*words, limits, become=ROOT):
        script = [f"echo 0 > /proc/sys/user/{limit}" for limit in limits] + [f'exec {become} "$@"']
        done = subprocess.run(
            [*OURS, "sh", "-ec", "\n".join(script), "sh", sys.executable, *words],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout

    return run


@pytest.mark.parametrize(
    ("limits", "become", "said"),
    [
        ([], ROOT, "None"),
        (["max_net_namespaces"], ROOT, "this machine has no more namespaces (begin: [Errno 28] unshare"),
        (["max_user_namespaces"], ROOT, "None"),
        (["max_user_namespaces"], ORDINARY, "no user namespaces are allowed on this machine: sudo sysctl user"),
        (["max_net_namespaces"], ORDINARY, "this machine has no more namespaces (begin: [Errno 28] unshare"),
    ],
)
def test_a_limit_of_the_machine_is_told(request, limited, limits, become, said):
    must_have(request, NetnsEnvironment.available())
    code = "from chaoskit.environments.netns.environment import NetnsEnvironment as It; print(It.available())"
    assert limited("-c", code, limits=limits, become=become)[1].startswith(said)


@pytest.mark.slow
def test_experiments_are_skipped_where_there_are_no_hosts_unless_they_must_not(limited):
    why = "environment 'netns' cannot be used here: this machine has no more namespaces"
    job = ["-k", "shorter", "--", sys.executable, str(TRAINERS / "simple.py"), "--out", "{out}"]
    words = ["-m", "chaoskit", "run", "--env", "netns", "--nodes", "2", *job]
    code, said = limited(*words, limits=["max_net_namespaces"])
    assert code == ExitCode.INCONCLUSIVE and said.startswith(f"chaoskit: {why}"), said
    experiment = str(REPOSITORY / "experiments" / "test_network_partition.py")
    options = ["-p", "no:cacheprovider", "--chaos-env", "netns", "--chaos-nodes", "2", "--chaos-dir", "runs"]
    for required, outcome in ([], "1 skipped"), (["--chaos-require"], "1 error"):
        words = ["-m", "pytest", experiment, "-k", "shorter", *options, *required]
        code, said = limited(*words, limits=["max_net_namespaces"])
        assert code == bool(required) and outcome in said and why in said, said


# What cannot be run on several nodes.


@pytest.fixture
def chaoskit(tmp_path, monkeypatch, capfd):
    """Call it with arguments; its exit code and all that it said."""
    monkeypatch.chdir(tmp_path)

    def run(*words, command=(str(TRAINERS / "simple.py"), "--out", "{out}")):
        try:
            code = main.main(["run", "-k", "mid_epoch and one_rank", *words, "--", *TORCHRUN, *command])
        except SystemExit as end:
            code = end.code
        said = capfd.readouterr()
        return code, " ".join((said.out + said.err).split())

    return run


TORCHRUN = (sys.executable, "-m", "torch.distributed.run")


@pytest.mark.parametrize("nodes", ["0", "x", "2:1", "1:2:3", "-1", "", "1.5"])
def test_a_number_of_nodes_that_is_none_is_refused(chaoskit, nodes):
    code, said = chaoskit(f"--nodes={nodes}")
    assert code == ExitCode.USAGE
    wrong = f"give a number of nodes from 1, or a range of them such as '1:2', not {nodes!r}"
    assert (f"argument --nodes: {wrong}" if nodes else "--nodes is empty") in said
    with pytest.raises(UsageError, match=wrong):
        Job("train.py", ["{out}"], nnodes=nodes)


def test_one_machine_is_one_node(chaoskit):
    code, said = chaoskit("--nodes", "2")
    assert code == ExitCode.USAGE
    assert "nnodes=2: environment 'local' has one node only; use --env docker or " in said and "--env netns" in said


def test_a_job_whose_ranks_would_stay_alone_is_refused(chaoskit, request):
    must_have(request, NetnsEnvironment.available())
    command = ("--standalone", str(TRAINERS / "simple.py"), "--out", "{out}")
    code, said = chaoskit("--env", "netns", "--nodes", "2", command=command)
    assert code == ExitCode.USAGE
    assert "he job binds to its own node only (--standalone), so that the ranks of 2 nodes cannot meet" in said


@pytest.mark.parametrize(
    ("flags", "env", "named"),
    [
        (["--standalone"], {}, "--standalone"),
        (["--rdzv-endpoint", "localhost:1"], {}, "--rdzv-endpoint localhost:1"),
        (["--rdzv_endpoint=127.0.0.1:29400"], {}, "--rdzv-endpoint 127.0.0.1:29400"),
        (["--rdzv-endpoint", "[::1]:1"], {}, "--rdzv-endpoint [::1]:1"),
        (["--rdzv-endpoint", "localhost"], {}, "--rdzv-endpoint localhost"),
        (["--master-addr", "::1"], {}, "--master-addr ::1"),
        (["--master_addr", "127.0.0.1"], {}, "--master-addr 127.0.0.1"),
        ([], {"PET_RDZV_ENDPOINT": "localhost:29400"}, "PET_RDZV_ENDPOINT=localhost:29400"),
        ([], {"PET_RDZV_ENDPOINT": "[::1]:29400"}, "PET_RDZV_ENDPOINT=[::1]:29400"),
        ([], {"GLOO_SOCKET_IFNAME": "lo"}, "GLOO_SOCKET_IFNAME=lo"),
        (["--rdzv-endpoint", "node0:29400"], {}, None),
        (["--master-addr", "10.77.0.1"], {"GLOO_SOCKET_IFNAME": "eth0"}, None),
    ],
)
def test_what_binds_to_one_node_is_named(flags, env, named, tmp_path):
    (tmp_path / "train.py").touch()
    command = [*TORCHRUN, *flags, "train.py", "{out}"]
    Job.from_command(command, cwd=str(tmp_path), env=env).validate()
    job = Job.from_command(command, cwd=str(tmp_path), env=env, nnodes="1:2")
    if named is None:
        return job.validate()
    with pytest.raises(UsageError) as error:
        job.validate()
    assert f"binds to its own node only ({named}), so that the ranks of 1:2 nodes cannot meet" in str(error.value)


@pytest.fixture
def runner(tmp_path, request):
    must_have(request, NetnsEnvironment.available())
    return Runner(Store(tmp_path / "store"), environment="netns")


def test_more_nodes_than_there_are_addresses_are_refused(runner):
    job = Job(str(TRAINERS / "simple.py"), ["--out", "{out}"], nnodes=251)
    with pytest.raises(UsageError, match="nnodes=251: environment 'netns' has 250 nodes at most"):
        runner.reference(job)


@pytest.mark.parametrize(
    ("nodes", "make", "said"),
    [
        (2, lambda: faults.partition(groups=((0,), (0, 1)), seconds=1), "must not overlap, and node 0 is in two"),
        (2, lambda: faults.partition(groups=((0,), (-2,)), seconds=1), "node 0 and node -2 are the same in a job of 2"),
        (2, lambda: faults.partition(groups=((0,), (5,)), seconds=1), "there is no node 5 in a job of 2 nodes; nodes"),
        (2, lambda: faults.isolate(node=5, seconds=1), "isolate node 5 for 1 s: there is no node 5"),
        (2, lambda: faults.kill_node(node=-3), "there is no node -3"),
        (1, lambda: faults.partition(seconds=1), "no network between nodes; launch it on several: nnodes=2"),
    ],
)  # fmt: skip
def test_nodes_that_are_not_there_are_refused_before_anything_runs(runner, nodes, make, said):
    job = Job(str(TRAINERS / "simple.py"), ["--out", "{out}"], nnodes=nodes, nproc_per_node=1)
    with pytest.raises(UsageError, match=said) as error:
        runner.run(job, make().at_step(3))
    assert error.value.exit_code == ExitCode.USAGE
    assert not list(runner.store.root.glob("re*/*")) and not list(runner.store.root.glob("runs/*"))


@pytest.mark.slow
def test_ranks_that_are_told_to_meet_on_their_own_node_do_not_meet(runner):
    begin = ["sh", "-c", 'RANK=${CHAOSKIT_NODE#node} WORLD_SIZE=2 exec "$0" "$@"', sys.executable]
    job = Job.from_command([*begin, str(TRAINERS / "loopback.py"), "--out", "{out}"], nnodes=2, timeout=60)
    with pytest.raises(
        ReferenceFailed, match=r"the ranks of 2 nodes cannot meet: .*127\.0\.0\.1"
    ):
        runner.reference(job)
