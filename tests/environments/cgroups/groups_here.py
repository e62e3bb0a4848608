"""Control groups for tests: real ones where this machine gives them, and files that look like some."""

from __future__ import annotations

from pathlib import Path

from chaoskit.environments.cgroups.hierarchy import Hierarchy

#: The files of a group that has no limit, by the version of its hierarchy.
FILES = {
    1: {
        "cgroup.procs": "",
        "memory.usage_in_bytes": "1000000\n",
        "memory.limit_in_bytes": "9223372036854771712\n",
        "memory.stat": "total_inactive_file 100000\ntotal_active_file 200000\nrss 700000\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
        "memory.swappiness": "60\n",
        "cpu.cfs_period_us": "100000\n",
        "cpu.cfs_quota_us": "-1\n",
        "cpu.stat": "nr_periods 10\nnr_throttled 2\nthrottled_time 1000000000\n",
        "blkio.throttle.read_bps_device": "",
        "blkio.throttle.write_bps_device": "",
        "blkio.throttle.io_service_bytes": "8:0 Read 100\n8:0 Write 200\n8:0 Total 300\nTotal 300\n",
    },
    2: {
        "cgroup.procs": "",
        "cgroup.controllers": "cpu io memory\n",
        "cgroup.subtree_control": "",
        "memory.current": "1000000\n",
        "memory.max": "max\n",
        "memory.swap.max": "max\n",
        "memory.stat": "anon 700000\ninactive_file 100000\nactive_file 200000\n",
        "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 0\noom_group_kill 0\n",
        "cpu.max": "max 100000\n",
        "cpu.stat": "usage_usec 5\nuser_usec 5\nsystem_usec 0\nnr_periods 10\nnr_throttled 2\nthrottled_usec 1000000\n",
        "io.max": "",
        "io.stat": "8:0 rbytes=100 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n",
        "io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=500000\nfull avg10=0.00 total=0\n",
    },
}


def fake(place: Path, version: int) -> Path:
    """Make a directory look like a group."""
    place.mkdir(parents=True, exist_ok=True)
    for name, content in FILES[version].items():
        (place / name).write_text(content)
    return place


def hierarchy(place: Path, version: int) -> Hierarchy:
    """A hierarchy with all controllers whose only group is that one."""
    return Hierarchy(version, ("memory", "cpu", "io"), place, place)
