"""No input makes a spec that could hit what is not of the run, cut pods off from everything, or last for ever."""

from __future__ import annotations

import errno
import inspect
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit.environments.kubernetes.chaos import io_specs, network_specs, pod_specs
from chaoskit.environments.kubernetes.chaos.aim import Aim
from chaoskit.environments.kubernetes.guards import LONGEST_FAULT
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.selectors import RunIdentity, RunSelector, foreign_targets
from chaoskit.errors import UsageError
from tests.environments.kubernetes.chaos.some_specs import FITTING, ONE, anything, examples
from tests.kubernetes_server.resources import Catalogue
from tests.kubernetes_server.validation import check, completed, decoded

BUILDERS = {
    name: function
    for module in (network_specs, io_specs, pod_specs)
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
}
OF_IO = ("path", "methods", "percent", "containers")


def test_all_builders_are_tried():
    assert len(BUILDERS) == 9 and len(examples()) == 10


def arguments(function):
    """Arguments of a builder: most of them fit, and any may be anything or be left out."""
    names = [name for name, one in inspect.signature(function).parameters.items() if one.kind != one.VAR_KEYWORD]
    names += [name for name in OF_IO if function.__module__ == io_specs.__name__ and name not in names]
    unlikely = st.integers(0, 19).flatmap(lambda n: anything if n == 0 else st.nothing())
    return st.fixed_dictionaries(
        {name: FITTING[name] for name in ("aim",)},
        optional={name: st.one_of(FITTING[name], FITTING[name], FITTING[name], unlikely) for name in names[1:]},
    )


calls = st.sampled_from(sorted(BUILDERS)).flatmap(lambda name: st.tuples(st.just(name), arguments(BUILDERS[name])))


def built(name, given_):
    """The spec that comes of a call, None if it is refused."""
    try:
        return BUILDERS[name](**given_)
    except UsageError as error:
        assert str(error).count("\n") == 0
        return None
    except TypeError as error:
        assert "required keyword-only argument" in str(error), error
        return None


def selectors_in(value):
    if isinstance(value, dict):
        if "selector" in value:
            yield value["selector"]
        for inner in value.values():
            yield from selectors_in(inner)


def bounded(spec):
    """Whether it ends by itself within the cap."""
    return 0 < int(spec["duration"].removesuffix("ms")) <= LONGEST_FAULT * 1000


def sound(made):
    found = list(selectors_in(made.spec))
    assert found and list(foreign_targets(made.spec, ONE)) == []
    for selector in found:
        assert ONE.labels.items() <= selector["labelSelectors"].items() and selector["namespaces"] == ["staging"]
    if made.spec.get("action") == "partition":
        assert made.spec["target"]["selector"] and "externalTargets" not in made.spec


def test_whatever_the_input():
    happened = {"made": 0, "refused": 0}

    @given(calls)
    @settings(max_examples=600)
    def tried(call):
        if (made := built(*call)) is None:
            happened["refused"] += 1
            return
        happened["made"] += 1
        sound(made)
        assert bounded(made.spec)

    tried()
    assert min(happened.values()) > 15, "it would say little"


@given(anything, anything, anything)
def test_no_aim_without_both_labels(selector, mode, value):
    try:
        aim = Aim(selector, mode, value)
    except UsageError:
        return
    assert ONE.labels.items() <= aim.as_fields()["selector"]["labelSelectors"].items()


@pytest.fixture(scope="module")
def catalogue():
    from tests.kubernetes_server.fixtures import definitions

    made = Catalogue()
    for definition in definitions():
        made.install(definition)
    return made


@given(calls)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_manifest_is_what_the_real_definitions_allow(catalogue, crds, call):
    if (made := built(*call)) is None:
        return
    resource = catalogue.named(made.kind.plural, made.kind.group)
    obj = completed(resource, decoded(resource, made.manifest("fault-1"), "Strict").obj)
    check(resource, obj)


@pytest.mark.parametrize("name", examples())
def test_a_server_takes_each_kind_under_strict_validation(name, crds, connection, cluster, tmp_path):
    run = RunObjects(connection, namespace=cluster.namespace, run_id="r1", run_dir=tmp_path)
    spec = examples(run.identity)[name]
    made = run.create(spec.kind, spec.manifest("fault-1"), role="fault-1")
    kept = {key: made["spec"][key] for key in spec.spec}
    assert kept == spec.spec
    connection.create(cluster.namespace, spec.kind, spec.manifest("fault-2"), dry_run=True)


FIRST, SECOND = Aim(RunSelector(ONE, "trainer", 0)), Aim(RunSelector(ONE, "trainer", 1))
EVERYBODY = Aim(RunSelector(ONE))
WRONG = [
    ("partition", {"target": None}, "target is missing"),
    ("partition", {"target": RunSelector(ONE)}, "target must be an Aim"),
    ("partition", {"direction": "out"}, "direction must be one of to, from, both"),
    ("partition", {"seconds": 601}, "duration must be"),
    ("partition", {"seconds": None}, "duration must be"),
    ("partition", {"seconds": 1.9}, "duration must be a number from 2"),
    ("delay", {"latency": 0}, "latency must be"),
    ("delay", {"latency": 1e-8}, "latency must be a microsecond"),
    ("delay", {"jitter": 0.3, "latency": 0.2}, "jitter must be"),
    ("delay", {"target": None, "direction": "from"}, "target is missing"),
    ("delay", {"target": EVERYBODY, "direction": "both"}, "target must select other pods than aim"),
    ("loss", {"percent": 0}, "percent must be"),
    ("loss", {"percent": 101}, "percent must be"),
    ("loss", {"correlation": -1}, "correlation must be"),
    ("poor_link", {"rate": 0.5}, "rate must be a whole number"),
    ("poor_link", {}, "latency, rate or corrupt must be given"),
    ("io_fault", {"methods": ("wirte",)}, "methods must be some of .*, not 'wirte'"),
    ("io_fault", {"methods": "write"}, "methods must be some of"),
    ("io_fault", {"error": "ENOSPACE"}, "error must be the name of a system error"),
    ("io_fault", {"percent": 0}, "percent must be"),
    ("io_fault", {"volume": "ckpt"}, "volume must be the path at which a volume is mounted"),
    ("io_fault", {"volume": "/"}, "volume must be"),
    ("io_fault", {"volume": "/ckpt/"}, "volume must be"),
    ("io_fault", {"path": "/other/*"}, "path must be a pattern below the volume"),
    ("io_latency", {"delay": 0}, "delay must be"),
    ("clock_offset", {"containers": ("A b",)}, "containers must be names"),
    ("stress", {}, "cpu_workers or memory_workers must be given"),
    ("stress", {"memory_workers": 1}, "memory must be a whole number"),
    ("stress", {"memory_workers": 1, "memory": 5, "kill_score": -1001}, "kill_score must be"),
    ("stress", {"memory": 5, "cpu_workers": 1}, "memory 5 has no meaning"),
    ("clock_offset", {"offset": 0}, "offset must be a millisecond at least"),
    ("clock_offset", {"clocks": ("CLOCK_WALL",)}, "clocks must be some of"),
    ("wrong_names", {"patterns": ()}, "patterns must have one at least"),
    ("wrong_names", {"patterns": ("a.*.b",)}, "patterns must be names"),
    ("wrong_names", {"patterns": ("*.b",)}, "patterns must be names"),
]


@pytest.mark.parametrize(("name", "given_", "said"), WRONG)
def test_a_refusal_names_the_argument(name, given_, said):
    """Most of these rules only the webhook of Chaos Mesh knows; of some nobody says that they are broken."""
    sound_ones = {"aim": FIRST, "seconds": 30, "volume": "/ckpt", "error": "EIO", "latency": 0.1, "percent": 5}
    sound_ones |= {"target": SECOND, "rate": 1000, "delay": 1.0, "offset": 5}
    sound_ones |= {"patterns": ("a",), "containers": ("trainer",)}
    wanted = set(inspect.signature(BUILDERS[name]).parameters)
    needed = {key: value for key, value in sound_ones.items() if key in wanted}
    if name in ("poor_link", "stress"):
        needed = {"aim": FIRST, "seconds": 30}
    else:
        BUILDERS[name](**needed)
    with pytest.raises(UsageError, match=said):
        BUILDERS[name](**{**needed, **given_})


@pytest.mark.parametrize(
    ("mode", "value", "said"),
    [
        ("fixed", 0, "value must be a whole number from 1"),
        ("fixed", "1", "value must be a whole number"),
        ("fixed", None, "value must be a whole number"),
        ("fixed-percent", 101, "to 100"),
        ("random-max-percent", 0, "from 1 to 100"),
        ("one", 1, "has no meaning with mode 'one'"),
        ("some", None, "mode must be one of"),
    ],
)
def test_values_of_modes(mode, value, said):
    with pytest.raises(UsageError, match=said):
        Aim(RunSelector(ONE), mode, value)
    assert Aim(RunSelector(ONE), "fixed", 2).as_fields()["value"] == "2"


def test_what_specs_look_like():
    made = examples()
    assert made["delay"].spec["delay"] == {"latency": "200000us", "jitter": "50000us", "correlation": "0"}
    assert made["loss"].spec["loss"] == {"loss": "30", "correlation": "0"}
    assert made["io fault"].spec["errno"] == errno.ENOSPC and made["io fault"].spec["percent"] == 50
    assert made["clock"].spec["timeOffset"] == "-600000ms"
    assert made["poor link"].spec["rate"] == {"rate": "1000000bps"} and made["poor link"].spec["action"] == "netem"


def test_pods_on_both_sides():
    other = RunIdentity("staging", "r2", ONE.uid)
    assert EVERYBODY.may_meet(FIRST) and FIRST.may_meet(EVERYBODY) and not FIRST.may_meet(SECOND)
    assert not EVERYBODY.may_meet(Aim(RunSelector(other)))


def test_a_spec_made_by_hand_is_held_to_the_same():
    partition = examples()["partition"]
    for lacking, said in (("target", "target is missing"), ("duration", "a duration is missing")):
        spec = {key: value for key, value in partition.spec.items() if key != lacking}
        with pytest.raises(UsageError, match=said):
            replace(partition, spec=spec)
    for name in ("", "A", "-a", "a" * 64, None, "a.b"):
        with pytest.raises(UsageError, match="name must be"):
            partition.manifest(name)
