"""One spec of each kind and action, and arguments of every sort for the builders."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from chaoskit.environments.kubernetes.chaos import io_specs, network_specs, pod_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.chaos.chaos_spec import ChaosSpec
from chaoskit.environments.kubernetes.selectors import RunIdentity, RunSelector

UID = "0b8a6f3e-6f0d-4c06-9d58-1df5c43a4b8e"
ONE = RunIdentity("staging", "r1", UID)


def examples(identity: RunIdentity = ONE) -> dict[str, ChaosSpec]:
    """A spec for each builder, by name, against pods of this run."""
    first = Aim(RunSelector(identity, "trainer", 0))
    other = Aim(RunSelector(identity, "trainer", 1))
    one, fixed = Aim(RunSelector(identity), "one"), Aim(RunSelector(identity), "fixed", 1)
    return {
        "partition": network_specs.partition(aim=first, target=other, direction="to", seconds=30),
        "delay": network_specs.delay(aim=first, target=other, direction="both", latency=0.2, jitter=0.05, seconds=30),
        "delay of all": network_specs.delay(aim=first, latency=0.0015, correlation=25, seconds=30),
        "loss": network_specs.loss(aim=first, target=other, percent=30, seconds=30),
        "poor link": network_specs.poor_link(
            aim=first, target=other, direction="both", latency=0.01, rate=10**6, corrupt=1, seconds=30
        ),
        "io latency": io_specs.io_latency(aim=one, volume="/ckpt", delay=0.5, path="/ckpt/**/*", seconds=30),
        "io fault": io_specs.io_fault(
            aim=one, volume="/ckpt", error="ENOSPC", methods=("write", "fsync"), percent=50, seconds=30
        ),
        "stress": pod_specs.stress(aim=fixed, cpu_workers=1, cpu_load=80, memory_workers=1, memory=2**28, seconds=30),
        "clock": pod_specs.clock_offset(aim=one, offset=-600, seconds=30),
        "names": pod_specs.wrong_names(aim=one, patterns=("minio.*", "trainer-1.names"), seconds=30),
    }


identities = st.builds(
    RunIdentity,
    st.sampled_from(["staging", "nightly"]), st.sampled_from(["r1", "R-2.a"]), st.sampled_from([UID, "u" * 63]),
)  # fmt: skip
selectors = st.builds(
    RunSelector, st.just(ONE), st.sampled_from([None, "trainer"]), st.sampled_from([None, 0, 1, 7])
)
aims = st.one_of(
    st.builds(Aim, selectors, st.sampled_from(["one", "all"])),
    st.builds(Aim, selectors, st.sampled_from(["fixed", "fixed-percent", "random-max-percent"]), st.integers(1, 100)),
)
anything: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.text()),
    st.dictionaries(st.text(), st.integers()), aims,
)  # fmt: skip
#: What suits each argument; the tests mix it with anything.
FITTING: dict[str, st.SearchStrategy[Any]] = {
    "aim": aims,
    "target": aims,
    "direction": st.sampled_from(["to", "from", "both"]),
    "seconds": st.one_of(st.none(), st.floats(0.0001, 600), st.integers(1, 600)),
    "latency": st.floats(1e-6, 200),
    "jitter": st.one_of(st.just(0.0), st.floats(0, 1)),
    "correlation": st.floats(0, 100),
    "percent": st.one_of(st.integers(1, 100), st.floats(0.001, 100)),
    "corrupt": st.one_of(st.just(0), st.floats(0.001, 100)),
    "rate": st.integers(1, 2**40),
    "volume": st.sampled_from(["/ckpt", "/a/b"]),
    "path": st.sampled_from(["", "/ckpt/**/*", "/a/b/c"]),
    "methods": st.lists(st.sampled_from(io_specs.METHODS), max_size=3),
    "delay": st.floats(1e-6, 600),
    "error": st.sampled_from(["EIO", "ENOSPC"]),
    "containers": st.lists(st.sampled_from(["trainer", "side-car"]), max_size=2),
    "cpu_workers": st.integers(0, 8192),
    "cpu_load": st.integers(1, 100),
    "memory_workers": st.integers(0, 8192),
    "kill_score": st.integers(-1000, 1000),
    "memory": st.one_of(st.none(), st.integers(1, 2**50)),
    "offset": st.floats(-1e6, 1e6),
    "clocks": st.lists(st.sampled_from(pod_specs.CLOCKS), min_size=1, max_size=2),
    "patterns": st.lists(st.sampled_from(["a", "minio.*", "a?c.d"]), min_size=1, max_size=2),
    "action": st.sampled_from(["error", "random"]),
}
