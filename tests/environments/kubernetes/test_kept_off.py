"""A pod is kept off one machine, and keeps what its affinity asks for already."""

from __future__ import annotations

import pytest

from chaoskit.environments.kubernetes.kept_off import kept_off, machines_kept_off
from tests.kubernetes_server.scheduler import selects

REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
IN_ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
FAST = {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}


def machine(name, **labels):
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": f"{name}.example", **labels}}}


def pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"restartPolicy": "Never", **spec}}


def test_it_goes_anywhere_else():
    plain = pod(nodeSelector={"pool": "staging"})
    held = kept_off(plain, "m0")
    assert plain == pod(nodeSelector={"pool": "staging"}), "the manifest itself has changed"
    assert selects(plain["spec"], machine("m0", pool="staging")) and machines_kept_off(plain) == ()
    # The label kubernetes.io/hostname is not the name of the machine.
    assert not selects(held["spec"], machine("m0", pool="staging"))
    assert selects(held["spec"], machine("m1", pool="staging")) and not selects(held["spec"], machine("m1"))
    assert machines_kept_off(held) == ("m0",)


def test_each_term_of_its_affinity_is_joined():
    preferred = {"weight": 1, "preference": FAST}
    affinity = {
        "podAntiAffinity": {"kept": True},
        "nodeAffinity": {PREFERRED: [preferred], REQUIRED: {"nodeSelectorTerms": [IN_ZONE, FAST]}},
    }
    held = kept_off(kept_off(pod(affinity=affinity), "m0"), "m1")
    assert held["spec"]["affinity"]["podAntiAffinity"] == {"kept": True}
    assert held["spec"]["affinity"]["nodeAffinity"][PREFERRED] == [preferred]
    assert machines_kept_off(held) == ("m0", "m1")
    for labels in ({"zone": "a"}, {"zone": "b"}, {"fast": ""}):
        assert [selects(held["spec"], machine(name, **labels)) for name in ("m0", "m1", "m2")] == [False, False, True]
    assert not selects(held["spec"], machine("m2", zone="c")) and not selects(held["spec"], machine("m2"))


@pytest.mark.parametrize(
    ("operator", "values", "fitting"),
    [
        ("In", ["1"], {"one"}), ("NotIn", ["1"], {"two", "none"}), ("Exists", [], {"one", "two"}),
        ("DoesNotExist", [], {"none"}), ("Gt", ["1"], {"two"}), ("Lt", ["2"], {"one"}),
    ],
)  # fmt: skip
def test_the_scheduler_of_the_tests_knows_every_operator(operator, values, fitting):
    term = {"matchExpressions": [{"key": "n", "operator": operator, "values": values}]}
    spec = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}
    machines = (machine("one", n="1"), machine("two", n="2"), machine("none"))
    assert {each["metadata"]["name"] for each in machines if selects(spec, each)} == fitting
    # A term that asks for nothing selects nothing.
    assert not selects({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}}, machine("one"))
