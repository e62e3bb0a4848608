"""Environments by name, their traits, and what can be asked of one before it is started."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from chaoskit import capabilities, environments
from chaoskit.capabilities import CanFailStorage, CanReset, CanSignal
from chaoskit.cli import options
from chaoskit.environments import DEFAULT_ENVIRONMENT, ENVIRONMENTS, EnvironmentTraits, unused_options
from chaoskit.errors import MissingCapability, UsageError
from chaoskit.nodes import Nodes


class Moon:
    """An environment that can do nothing; it is never started."""

    traits = EnvironmentTraits(name="moon", summary="far away", nodes_least=2, nodes_most=3)

    def __init__(self, spec):
        raise AssertionError("it was to be asked and not started")

    @staticmethod
    def available():
        return "no rocket: build one"

    @staticmethod
    def storage_available():
        return "no storage"


@pytest.fixture
def moon(monkeypatch):
    monkeypatch.setitem(ENVIRONMENTS, "moon", Moon)
    return "moon"


def test_traits_are_declared_and_cannot_be_changed():
    for name, kind in ENVIRONMENTS.items():
        assert kind.traits.name == name and kind.traits.summary
        assert kind.traits.nodes_least <= kind.traits.nodes_most
        assert "" in kind.traits.storage
        with pytest.raises(FrozenInstanceError):
            kind.traits.name = "other"
    assert DEFAULT_ENVIRONMENT in ENVIRONMENTS


def test_an_option_that_an_environment_does_not_use_names_those_that_do():
    unused = unused_options("local")
    assert unused["image"] == ["docker", "kubernetes"] and unused["partition"] == ["slurm"]
    assert {"image", "pull"}.isdisjoint(unused_options("docker")) and "partition" in unused_options("docker")
    known = {option.name for option in options.SHARED}
    assert known.issuperset(unused), "each is an option of the command line"


def test_an_environment_that_registers_itself_is_found(monkeypatch):
    monkeypatch.setattr("chaoskit.environments.registry.ENVIRONMENTS", dict(ENVIRONMENTS))
    environments.register_environment(Moon)
    assert environments.environment("moon") is Moon
    with pytest.raises(UsageError, match=r"'sun'.*moon"):
        environments.environment("sun")


def test_what_a_machine_lacks_is_said_with_the_remedy(moon):
    with pytest.raises(MissingCapability, match="no rocket: build one") as caught:
        environments.must_have(moon)
    assert caught.value.capability == "moon" and caught.value.remedy


@pytest.mark.parametrize(("least", "most", "fits"), [(1, 1, False), (1, 2, True), (3, 3, True), (2, 4, False)])
def test_a_job_must_fit(moon, least, most, fits):
    if fits:
        environments.must_fit(moon, Nodes(least, most))
    else:
        with pytest.raises(UsageError, match=rf"nnodes={Nodes(least, most)}: environment 'moon'"):
            environments.must_fit(moon, Nodes(least, most))


def test_a_job_too_large_is_sent_to_where_it_fits():
    with pytest.raises(UsageError, match="one node only; use --env docker or --env kubernetes or --env netns"):
        environments.must_fit("local", Nodes(2, 2))


def test_a_capability_that_is_missing_names_who_has_it(moon):
    environments.must_offer("local", [CanSignal], to="a fault")
    with pytest.raises(MissingCapability, match=r"cut the link.*CanReset.*--env docker or --env netns") as caught:
        environments.must_offer("local", [CanSignal, CanReset], to="cut the link")
    assert caught.value.capability == "CanReset"
    everybody = "--env docker or --env kubernetes or --env local or --env netns"
    with pytest.raises(MissingCapability, match=f"CanSignal.*use {everybody}"):
        environments.must_offer(moon, [CanSignal], to="a fault")


def test_storage_that_is_missing_names_who_has_it(moon, monkeypatch):
    environments.must_store(moon, "")
    with pytest.raises(MissingCapability, match=r"moon.*has no recorded storage.*--env local") as caught:
        environments.must_store(moon, "recorded")
    assert caught.value.capability == CanFailStorage.__name__
    monkeypatch.setattr(ENVIRONMENTS["local"], "storage_available", staticmethod(lambda: "no such luck"))
    with pytest.raises(MissingCapability, match="no such luck"):
        environments.must_store("local", "watched")
    with pytest.raises(UsageError, match="storage must be one of"):
        environments.must_store("local", "sometimes")


def test_a_plain_storage_that_fails_as_a_whole(moon):
    assert environments.failing_storage("local", ["a fault"]) == "watched"
    assert environments.failing_storage("kubernetes", []) == ""
    environments.must_store("kubernetes", "", per_node=True)
    with pytest.raises(MissingCapability, match=r"a fault picks requests.*'kubernetes' can only.*--env docker"):
        environments.failing_storage("kubernetes", ["a fault"])


def test_every_capability_says_what_it_takes():
    protocols = {name for name in vars(capabilities) if name.startswith("Can")}
    assert protocols == set(capabilities.REMEDIES)
    for name in protocols:
        assert "use --env" in environments.remedy_for(getattr(capabilities, name))
