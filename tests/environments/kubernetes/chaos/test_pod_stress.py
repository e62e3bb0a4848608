"""What is asked of Chaos Mesh for pods that run short, and what proves it; the agents are played here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.environments.kubernetes.api_kinds import STRESS_CHAOS
from chaoskit.environments.kubernetes.chaos.chaos_pods import ChaosLimits
from chaoskit.environments.kubernetes.chaos.felt_processor import FeltProcessor
from chaoskit.environments.kubernetes.chaos.pod_stress import MOST_WORKERS, PodStress
from chaoskit.errors import ChaoskitError
from tests.environments.kubernetes.chaos.test_pod_links import PlayedPods, there

GIB = 1 << 30
RANK = 50


class ShortPods(PlayedPods):
    """One pod with a limit of 16 GiB and of two processors, in which a rank runs."""

    def __init__(self, *given):
        super().__init__(*given)
        self.counted = {
            "used": 4 * GIB, "kills": 3, "periods": 10, "throttled": 1, "seconds": 0.5, "limit": 16 * GIB,
            "processors": 2.0, "available": 64 * GIB,
        }  # fmt: skip
        self.entered, self.killed_first, self.ended = {}, [], ""
        self.threads = {f"{RANK}/1": (8.0, 1.0), f"{RANK}/2": (1.0, 0.0)}
        self.at = 100.0

    def ask(self, node, request, **given):
        if node in self.gone:
            raise ChaoskitError(f"the pod of {node} has ended")
        if request == "processor_use":
            threads = {name: use for name, use in self.threads.items() if int(name.partition("/")[0]) in given["pids"]}
            return {"threads": threads, "at": self.at, "age": 10.0}
        if request == "kill_first":
            self.killed_first = given["pids"]
            return None
        return {"resources": dict(self.counted), "entered": dict(self.entered)}[request]

    def end_of(self, node):
        return self.ended


@pytest.fixture
def pods(run, running, connection):
    running(0)
    return ShortPods(run, connection, ("node0",))


@pytest.fixture
def stress(pods, mesh):
    made = PodStress(pods, limits=ChaosLimits(60, 5, 2))
    yield made
    made.close()


def take_memory(stress, here=(RANK, 51), leave=0):
    return stress.take_memory("node0", here=lambda: list(here), first=[RANK], leave=leave)


def test_memory_is_taken_up_to_the_limit_by_processes_that_are_never_killed(stress, pods):
    number = take_memory(stress)
    ((spec,),) = [[one["spec"] for one in there(pods, STRESS_CHAOS)]]
    memory = spec["stressors"]["memory"]
    assert memory["oomScoreAdj"] == -1000 and memory["workers"] == 4
    assert 12 * GIB < int(memory["size"].removesuffix("B")) * 4 < 12.1 * GIB and spec["duration"] == "60000ms"
    assert pods.killed_first == [RANK]
    stress.give_memory_back(number)
    stress.give_memory_back(number)
    stress.give_memory_back(99)
    assert there(pods, STRESS_CHAOS) == []


def test_what_is_left_is_left(stress, pods):
    take_memory(stress, leave=2 * GIB)
    (one,) = there(pods, STRESS_CHAOS)
    assert int(one["spec"]["stressors"]["memory"]["size"].removesuffix("B")) * 3 == pytest.approx(10 * GIB, abs=3)


REFUSED = [
    ({"limit": None}, r"no limit of memory: .*resources = \{limits = \{memory = "),
    ({"available": 13 * GIB}, r"its machine has 13\d+ available"),
]


@pytest.mark.parametrize(("counted", "why"), REFUSED, ids=lambda value: str(value)[:20])
def test_memory_that_is_not_the_pods_own_is_not_taken(stress, pods, counted, why):
    pods.counted |= counted
    with pytest.raises(LookupError, match=why):
        take_memory(stress)
    assert there(pods, STRESS_CHAOS) == []


def test_a_kill_of_the_job_is_told_and_one_of_a_stressor_is_not(stress, pods):
    here = [RANK, 51]
    pods.entered = {"60": 0}  # somebody has opened a shell in the pod
    number = stress.take_memory("node0", here=lambda: here, first=[RANK], leave=0)
    pods.entered |= {"70": 0, "71": -1000}
    assert stress.memory_taken(number)["kills"] == 0 and stress.memory_taken(number)["stressors"] == 2
    pods.counted["kills"] = 4
    del pods.entered["70"]
    assert stress.memory_taken(number)["kills"] == 0, "it may have been the stressor"
    pods.counted["kills"] = 5
    here.remove(RANK)
    found = stress.memory_taken(number)
    assert found["kills"] == 1 and found["gone"] == [RANK] and found["limit"] == 16 * GIB
    del pods.entered["71"]
    assert stress.memory_taken(number)["kills"] == 1, "the kernel never kills that one"
    del pods.entered["60"]
    pods.counted["kills"] = 6
    stress.give_memory_back(number)
    pods.counted["kills"] = 7
    assert stress.memory_taken(number)["kills"] == 2, "as it was when it ended"


def test_a_stressor_that_is_dying_when_the_memory_is_given_back_does_not_count(stress, pods, monkeypatch):
    number = take_memory(stress)
    pods.entered = {"70": 0}
    assert stress.memory_taken(number)["stressors"] == 1
    pods.counted["kills"] = 4
    asked, looks = pods.ask, iter("still there")

    def ask(node, request, **given):
        if request == "entered" and next(looks) == " ":
            del pods.entered["70"]
        return asked(node, request, **given)

    monkeypatch.setattr(pods, "ask", ask)
    stress.give_memory_back(number)
    assert stress.memory_taken(number)["kills"] == 0 and "".join(looks) == "there"


def test_of_a_pod_that_was_killed_whole_the_cluster_tells_why(stress, pods):
    def here():
        return pods.ask("node0", "entered") and [] if "node0" in pods.gone else [RANK, 51]

    number = stress.take_memory("node0", here=here, first=[RANK], leave=0)
    pods.gone = {"node0"}
    assert stress.memory_taken(number)["gone"] == [], "nobody knows yet why it has ended"
    pods.ended = "exit code 137 (Error)"
    assert stress.memory_taken(number) | {"kills": 0, "gone": [RANK, 51]} == stress.memory_taken(number)
    pods.ended = "exit code 137 (OOMKilled)"
    found = stress.memory_taken(number)
    assert found["kills"] == 1 and found["gone"] == [RANK, 51]
    # A fresh pod has other counters.
    pods.gone, pods.ended = set(), ""
    stress.came_up("node1")
    assert there(pods, STRESS_CHAOS) != []
    stress.came_up("node0")
    assert stress.memory_taken(number) == found and there(pods, STRESS_CHAOS) == []


def test_of_a_pod_that_is_replaced_at_once_nothing_is_told(stress, pods):
    memory = take_memory(stress)
    processors = stress.take_processors("node0", ranks=lambda: [RANK], cpu=0.5)
    stress.came_up("node0")
    assert stress.memory_taken(memory)["kills"] == 0 and stress.memory_taken(memory)["gone"] == []
    assert not stress.processors_taken(processors)["felt"] and there(pods, STRESS_CHAOS) == []


def test_so_many_busy_processes_are_started_that_the_job_keeps_its_share(stress, pods):
    number = stress.take_processors("node0", ranks=lambda: [RANK], cpu=0.25)
    (one,) = there(pods, STRESS_CHAOS)
    assert one["spec"]["stressors"] == {"cpu": {"workers": 7, "load": 100}}, "8 threads share 2 processors"
    found = stress.processors_taken(number)
    assert found["before"] == {"processors": 0.9, "share": 0.9} and found["aimed"] == 0.25 and not found["felt"]
    pods.entered = {"70": 0}
    pods.threads |= {f"{RANK}/1": (8.3, 2.2), "70/70": (0.2, 5.0)}
    assert not stress.processors_taken(number)["felt"], "the rank ran longer than the stressor"
    pods.threads |= {f"{RANK}/1": (8.3, 1.2), "70/70": (3.0, 5.0)}
    assert not stress.processors_taken(number)["felt"], "the rank hardly waited"
    pods.threads |= {f"{RANK}/1": (8.3, 2.2)}
    pods.at += 2.0
    assert stress.processors_taken(number)["felt"]
    pods.counted |= {"periods": 30, "throttled": 15, "seconds": 3.0}
    found = stress.processors_taken(number)
    assert found["felt"] and found["throttled"] == 14 and found["stressors"] == 1 and found["others"] == 1.5
    assert found["processors"] == 0.15 and found["share"] == 0.2
    pods.counted["throttled"] = 16
    stress.give_processors_back(number)
    found = {**found, "throttled": 15}
    pods.counted["throttled"] = 99
    assert stress.processors_taken(number) == found and there(pods, STRESS_CHAOS) == []
    stress.give_processors_back(99)


def test_ranks_and_threads_that_ran_at_once_count(stress, pods):
    pods.threads = {f"{RANK}/{one}": (9.0, 1.0) for one in range(3)}
    stress.take_processors("node0", ranks=lambda: [RANK], cpu=0.5)
    (one,) = there(pods, STRESS_CHAOS)
    assert one["spec"]["stressors"]["cpu"]["workers"] == 9


@pytest.mark.parametrize(
    ("counted", "cpu", "why"),
    [
        ({"processors": None}, 0.1, r"no limit of processors: .*\{cpu = "),
        ({}, 2, "has 2 processors in any case"),
        ({"processors": 64.0}, 0.1, f"takes 639 busy processes, and {MOST_WORKERS} are the most"),
    ],
    ids=str,
)
def test_what_no_share_can_be_left_of(stress, pods, counted, cpu, why):
    pods.counted |= counted
    with pytest.raises(LookupError, match=why):
        stress.take_processors("node0", ranks=lambda: [RANK], cpu=cpu)
    pods.threads = {}
    with pytest.raises(LookupError):
        stress.take_processors("node0", ranks=lambda: [RANK], cpu=0.5)
    assert there(pods, STRESS_CHAOS) == []


def test_on_a_busy_machine_a_share_counts_as_a_part_of_what_it_was():
    threads = {"1/1": (1.0, 9.0), "7/7": (0.0, 0.0)}
    felt = FeltProcessor(lambda pids: {"threads": dict(threads), "at": 5.0, "age": 5.0}, lambda: [1])
    felt.begin({7})
    threads |= {"1/1": (2.0, 18.0), "7/7": (2.0, 0.0)}
    assert not felt.look({7}, aimed=0.1)["felt"], "as before"
    threads |= {"1/1": (1.4, 18.0)}
    assert felt.look({7}, aimed=0.1)["felt"]
    threads |= {"1/1": (1.001, 9.05)}
    assert not felt.look({7}, aimed=0.1)["felt"], "too short to tell"


def test_it_ends_by_itself(pods, mesh, until):
    stress = PodStress(pods, limits=ChaosLimits(2, 5, 2))
    number = take_memory(stress)
    assert [one[0] for one in mesh.backend.applied] == ["StressChaos"] and mesh.backend.undone == []
    until(lambda: mesh.backend.undone)
    stress.give_memory_back(number)
    stress.close()


seconds = st.floats(0, 1000)


@given(seconds, seconds, seconds, seconds)
def test_nothing_is_felt_while_nobody_takes_anything(ran, waited, more, longer):
    """Whatever the ranks did before: if no stranger runs, they felt none."""
    threads = {"1/1": (ran, waited)}
    felt = FeltProcessor(lambda pids: {"threads": dict(threads), "at": 5.0, "age": 5.0}, lambda: [1])
    felt.begin([])
    threads["1/1"] = (ran + more, waited + longer)
    assert not felt.look([], aimed=0.1)["felt"]


def test_threads_that_ended_stay_counted_and_a_job_that_waits_for_nothing_felt_nothing():
    threads = {"1/1": (1.0, 0.0), "1/2": (1.0, 0.0)}
    felt = FeltProcessor(lambda pids: {"threads": dict(threads), "at": 5.0, "age": 5.0}, lambda: [1])
    felt.begin([])
    threads |= {"1/2": (2.0, 9.0), "7/7": (9.0, 0.0)}
    assert felt.look({7}, aimed=0.1)["felt"]
    del threads["1/2"]
    assert felt.look({7}, aimed=0.1)["felt"]
    idle = FeltProcessor(lambda pids: {"threads": dict(threads), "at": 5.0, "age": 5.0}, lambda: [1])
    idle.begin({7})
    threads["7/7"] = (90.0, 0.0)
    assert not idle.look({7}, aimed=0.1)["felt"]
