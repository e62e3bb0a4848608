"""No input makes a selector that could match what is not of its run."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.environments.kubernetes.listing import listed, must_select
from chaoskit.environments.kubernetes.selectors import (
    OWNER,
    RUN,
    OwnerSelector,
    RunIdentity,
    RunSelector,
    foreign_targets,
)
from chaoskit.errors import UsageError
from tests.kubernetes_server.selectors import selected_by

UID = "0b8a6f3e-6f0d-4c06-9d58-1df5c43a4b8e"
ONE = RunIdentity("staging", "r1", UID)
#: Sound values are among them, so that not every example is refused.
WORDS = st.one_of(
    st.text(), st.sampled_from(["r1", "a.b_C-9", UID, "staging", "a" * 63, "a" * 64, "", "-a", "a,b", "a=b", "a\n"])
)
ANYTHING = st.one_of(WORDS, st.none(), st.integers(), st.booleans(), st.floats(), st.binary(), st.lists(st.text()))
#: Anything that labels of other people's pods can be, and our own with other values.
LABELS = st.dictionaries(st.one_of(st.sampled_from([RUN, OWNER, "app"]), st.text()), st.one_of(WORDS, st.just(UID)))


def made(namespace, run, uid, role=None, node=None, index=None, replica=None):
    """The selector of this input, None if it is refused."""
    try:
        return RunSelector(RunIdentity(namespace, run, uid), role, node, index, replica)
    except UsageError:
        return None


@given(ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING)
def test_no_input_makes_a_selector_without_both_labels(namespace, run, uid, role, node, index, replica):
    if (selector := made(namespace, run, uid, role, node, index, replica)) is None:
        return
    required = dict(part.split("=") for part in selector.for_api().split(","))
    assert required == selector.labels and required[RUN] == run and required[OWNER] == uid
    assert all(re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", value) for value in required.values())
    assert all(1 <= len(value) <= 63 for value in required.values())
    rendered = selector.for_chaos_mesh()
    assert rendered.keys() == {"namespaces", "labelSelectors", "podPhaseSelectors"}
    assert rendered["namespaces"] == [namespace] and rendered["labelSelectors"] == required
    assert rendered["podPhaseSelectors"] == ["Running"]


@given(LABELS, st.sampled_from(["staging", "production"]), st.sampled_from([None, "trainer"]), st.integers(0, 9))
def test_a_selector_matches_the_objects_of_its_run_alone(labels, namespace, role, node):
    """Held to the selectors of a server, too."""
    manifest = {"metadata": {"name": "pod", "namespace": namespace, "labels": labels}}
    selector = RunSelector(ONE, role, node)
    ours = namespace == "staging" and labels.get(RUN) == "r1" and labels.get(OWNER) == UID
    assert not selector.matches(manifest) or ours
    whole = RunSelector(ONE)
    assert whole.matches(manifest) == ours
    try:
        by_server = selected_by(whole.for_api(), "", plural="pods")(manifest)
    except Exception as error:
        pytest.fail(f"a server does not understand {whole.for_api()}: {error}")
    assert by_server == (labels.get(RUN) == "r1" and labels.get(OWNER) == UID)


@given(st.dictionaries(st.text(), st.text()), st.one_of(st.none(), WORDS), st.one_of(st.none(), st.integers(0, 9)))
def test_role_and_node_can_only_narrow(labels, role, node):
    if (selector := made("staging", "r1", UID, role, node)) is None:
        return
    manifest = {"metadata": {"namespace": "staging", "labels": {**labels, **ONE.labels, **selector.labels}}}
    assert selector.matches(manifest) and RunSelector(ONE).matches(manifest)


def test_it_cannot_be_changed_into_one_that_selects_more():
    selector = RunSelector(ONE, "trainer", 1)
    for change in ({"identity": None}, {"identity": ONE.labels}, {"role": ""}, {"role": f"x,!{RUN}"}, {"node": -1}):
        with pytest.raises(UsageError):
            replace(selector, **change)
    for change in ({"run": ""}, {"uid": ""}, {"uid": None}, {"namespace": ""}, {"namespace": "*"}):
        with pytest.raises(UsageError, match=next(iter(change))):
            replace(ONE, **change)
    with pytest.raises(AttributeError):
        selector.role = None
    selector.labels.clear()
    selector.for_chaos_mesh()["labelSelectors"].clear()
    assert RUN in selector.labels and RUN in selector.for_chaos_mesh()["labelSelectors"]


def test_what_it_looks_like():
    selector = RunSelector(ONE, "trainer", 0)
    wanted = f"chaoskit.dev/role=trainer,chaoskit.dev/node=0,chaoskit.dev/run=r1,chaoskit.dev/owner={UID}"
    assert selector.for_api() == wanted
    assert RunSelector(ONE).for_chaos_mesh() == {
        "namespaces": ["staging"],
        "labelSelectors": {"chaoskit.dev/run": "r1", "chaoskit.dev/owner": UID},
        "podPhaseSelectors": ["Running"],
    }


def test_a_pod_of_a_job_is_selected_by_its_index_beside_the_labels_of_the_run():
    selector = RunSelector(ONE, "node", index=1)
    own = {"chaoskit.dev/role": "node", "batch.kubernetes.io/job-completion-index": "1", RUN: "r1", OWNER: UID}
    assert selector.labels == own
    foreign = {"metadata": {"namespace": "staging", "labels": {"batch.kubernetes.io/job-completion-index": "1"}}}
    assert not selector.matches(foreign)
    for wrong in (-1, "1", True, 1.0):
        with pytest.raises(UsageError, match="index"):
            RunSelector(ONE, "node", index=wrong)


def test_a_replica_is_selected_by_its_type_and_its_number_within_that():
    selector = RunSelector(ONE, "node", index=1, replica="worker")
    prefix = "training.kubeflow.org/replica"
    own = {"chaoskit.dev/role": "node", f"{prefix}-type": "worker", f"{prefix}-index": "1", RUN: "r1", OWNER: UID}
    assert selector.labels == own
    for wrong in ({"replica": "worker"}, {"replica": "a,b", "index": 1}, {"replica": "", "index": 1}):
        with pytest.raises(UsageError, match="replica"):
            RunSelector(ONE, "node", **wrong)


LOOK_ALIKE = type("LookAlike", (RunSelector,), {"for_api": lambda self: ""})(ONE)


@pytest.mark.parametrize("other", [None, "", "app=trainer", {RUN: "r1"}, LOOK_ALIKE])
def test_nothing_is_listed_by_anything_else(other):
    with pytest.raises(TypeError, match="must be a RunSelector"):
        must_select(other)
    with pytest.raises(TypeError):
        listed(None, None, other)


@given(ANYTHING, ANYTHING)
def test_a_sweep_selects_owners_of_runs_alone(namespace, user):
    try:
        selector = OwnerSelector(namespace, user)
    except UsageError:
        return
    first, *required = selector.for_api().split(",")
    assert first == RUN
    assert dict(part.split("=") for part in required) == {"chaoskit.dev/role": "owner", "chaoskit.dev/user": user}
    labels = {"chaoskit.dev/role": "owner", "chaoskit.dev/user": user}
    assert not selector.matches({"metadata": {"namespace": namespace, "labels": labels}})
    assert selector.matches({"metadata": {"namespace": namespace, "labels": {**labels, RUN: "r1"}}})


OWN = RunSelector(ONE).for_chaos_mesh()


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ({}, "namespace staging"),
        (None, "no mapping"),
        ({**OWN, "pods": {"staging": ["a"]}}, "has pods"),
        ({**OWN, "nodes": ["a"]}, "has nodes"),
        ({**OWN, "expressionSelectors": []}, "has expressionSelectors"),
        ({**OWN, "namespaces": ["staging", "production"]}, "not for namespace staging alone"),
        ({**OWN, "namespaces": []}, "not for namespace staging alone"),
        ({**OWN, "labelSelectors": {}}, "lacks the labels"),
        ({**OWN, "labelSelectors": {RUN: "r1"}}, "lacks the labels"),
        ({**OWN, "labelSelectors": {RUN: "r2", OWNER: UID}}, "lacks the labels"),
        ({**OWN, "labelSelectors": None}, "lacks the labels"),
    ],
)
def test_a_manifest_that_could_hit_others_is_found_wherever_it_is_in_it(selector, said):
    for spec in (
        {"selector": selector},
        {"selector": OWN, "target": {"mode": "all", "selector": selector}},
        {"templates": [{"networkChaos": {"selector": selector}}]},
    ):
        assert any(said in why for why in foreign_targets(spec, ONE)), spec


def test_a_manifest_for_the_own_pods_is_not():
    spec = {"selector": OWN, "target": {"mode": "all", "selector": RunSelector(ONE, "trainer", 1).for_chaos_mesh()}}
    assert list(foreign_targets(spec, ONE)) == []
