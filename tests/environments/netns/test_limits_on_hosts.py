"""Each virtual host has a control group of its own: what is limited on one leaves the others alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.capabilities import LimitTarget
from chaoskit.environments.cgroups.available import why_no_limits
from chaoskit.environments.netns.environment import NetnsEnvironment
from chaoskit.nodes import Nodes
from tests.users import must_have

pytestmark = pytest.mark.launches


def test_one_host_is_throttled(place, until, hosts_here, request):
    must_have(request, why_no_limits())
    spec = replace(place, nodes=Nodes(2, 2), limits=("memory", "cpu"))
    with NetnsEnvironment(spec) as env:
        env.launch(0, ["sh", "-c", "while :; do :; done"])
        limits = [env.limit_processor(LimitTarget(node=node), cpu=cpu) for node, cpu in ((-1, 0.05), (0, 64))]
        until(lambda: env.processor_limited(limits[0])["throttled"] > 0)
        assert env.processor_limited(limits[1])["throttled"] == 0
        with pytest.raises(LookupError, match="node 2 is not up; up are node0, node1"):
            env.limit_memory(LimitTarget(node=2), leave=0)
        groups = [Path(path) for path in Path("/sys/fs/cgroup").rglob(f"chaoskit-{place.run_id}/node1")]
        assert groups
    assert not [group for group in groups if group.exists()]
