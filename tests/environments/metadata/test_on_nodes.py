"""Metadata services where a job finds them: on each virtual host at the address of the clouds, on `local` by variables.

No torch: what asks is a script.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import pytest

from chaoskit.environments.environment import Ended, ExtraEvent
from chaoskit.environments.launch.cold import ColdLauncher
from chaoskit.environments.local.environment import LocalEnvironment
from chaoskit.environments.netns.environment import NetnsEnvironment
from chaoskit.errors import UsageError
from chaoskit.nodes import Nodes
from tests.users import as_root_only, repeat

#: Asks once, writes down the answer, and ends.
ASK = """
import json, os, socket, sys, urllib.error, urllib.request
method, url, headers = sys.argv[1], os.path.expandvars(sys.argv[2]), json.loads(sys.argv[3])
try:
    answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers, method=method), timeout=20)
    told = [answer.status, answer.read().decode()]
except urllib.error.HTTPError as error:
    told = [error.code, ""]
with open(sys.argv[4] + os.environ.get("CHAOSKIT_NODE", ""), "w") as out:
    json.dump(told, out)
"""


def ask(env, place, method, url, headers, name="answer"):
    """What a job of that environment is told; the events of it."""
    words = [sys.executable, "-I", "-S", "-c", ASK, method, url, json.dumps(headers), str(place.cwd / name)]
    env.launch(0, words)
    found = []
    deadline = time.monotonic() + 60
    while not any(isinstance(each, Ended) for each in found):
        assert time.monotonic() < deadline
        found += env.wait(5)
    return [each.data for each in found if isinstance(each, ExtraEvent) and each.kind == "metadata"]


@pytest.fixture
def on_hosts(place, hosts_here):
    def enter(cloud, **given):
        spec = replace(place, gated=False, nodes=Nodes(2, 2), metadata=cloud, **given)
        return NetnsEnvironment(spec, ColdLauncher(grace=0.3))

    return enter


def test_each_host_has_its_own_service_at_the_address_of_the_clouds(place, on_hosts):
    with on_hosts("gcp") as env:
        env.run.metadata.board("node1").post(seconds=60)
        url = "http://metadata.google.internal/computeMetadata/v1/instance/preempted"
        asked = ask(env, place, "GET", url, {"Metadata-Flavor": "Google"})
    told = [json.loads((place.cwd / f"answernode{number}").read_text()) for number in range(2)]
    assert told == [[200, "FALSE"], [200, "TRUE"]]
    assert sorted((each["node"], each["text"], each["status"]) for each in asked) == [
        ("node0", "FALSE", 200), ("node1", "TRUE", 200),
    ]  # fmt: skip
    assert all(isinstance(each["pid"], int) for each in asked)


def test_a_host_that_is_made_again_has_a_service_without_a_notice(place, on_hosts):
    with on_hosts("azure") as env:
        env.run.metadata.board("node0").post(seconds=60)
        env.job.roster.up.remove("node0")
        env.bring_up("node0")
        url = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
        ask(env, place, "GET", url, {"Metadata": "true"})
    status, text = json.loads((place.cwd / "answernode0").read_text())
    assert (status, json.loads(text)["Events"]) == (200, [])


def test_without_a_cloud_nothing_answers(place, on_hosts):
    with on_hosts("") as env:
        assert env.run.metadata is None
        ask(env, place, "GET", "http://169.254.169.254/", {})
    assert not (place.cwd / "answernode0").exists()


@pytest.mark.parametrize(
    ("cloud", "url", "headers"),
    [
        ("aws", "${AWS_EC2_METADATA_SERVICE_ENDPOINT}/latest/meta-data/spot/instance-action", {}),
        (
            "gcp",
            "http://${GCE_METADATA_HOST}/computeMetadata/v1/instance/maintenance-event",
            {"Metadata-Flavor": "Google"},
        ),
    ],
)
def test_on_local_a_variable_says_where_it_is(place, cloud, url, headers):
    with LocalEnvironment(replace(place, gated=False, metadata=cloud, imdsv1=True), ColdLauncher(grace=0.3)) as env:
        env.run.metadata.board("node0").post(seconds=60)
        asked = ask(env, place, "GET", url, headers)
    status, text = json.loads((place.cwd / "answer").read_text())
    assert status == 200
    assert "terminate" in text.lower()
    assert [(each["node"], each["status"]) for each in asked] == [("node0", 200)]


def test_on_local_there_is_none_for_azure(place):
    with pytest.raises(UsageError, match=r"169\.254\.169\.254.*--env netns"):
        LocalEnvironment(replace(place, metadata="azure")).__enter__()


@as_root_only
@pytest.mark.slow
def test_an_ordinary_user_has_them_too(request):
    repeat(request, __file__, "-m", "not slow")
