"""`History`: events in order, however they come."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.analysis.record.history import History, lifetimes
from chaoskit.analysis.record.rank_lifetime import COMPONENTS
from chaoskit.protocol.events import Event, EventWriter, RecordGap
from tests.history_writer import Writer, killed


def test_a_run_is_put_in_order():
    history = killed().history()
    assert [(inc.index, inc.launch, inc.restart, inc.world_size) for inc in history.incarnations] == [
        (0, 0, 0, 2), (1, 1, 0, 2),
    ]  # fmt: skip
    assert (history.ranks, history.world_size, history.end) == ([0, 1], 2, "finished")
    assert [launch.code for launch in history.launches] == [1, 0]
    (fault,) = history.faults
    assert fault.name == "kill rank 1"
    assert fault.requested < fault.applied < fault.observed
    assert history.incarnations[0].ranks[1].end is None
    assert history.incarnations[1].ranks[1].end is not None
    assert history.incarnations[1].start < history.incarnations[1].first_step


def test_the_order_of_sources_does_not_matter():
    events = killed().events
    mixed = sorted(events, key=lambda event: event.source, reverse=True)
    assert History.of(mixed) == History.of(events)


def test_a_save_that_did_not_return_is_open():
    run = Writer().launch().live(until=40, torn=True)
    saves = run.history().incarnations[0].ranks[0].saves
    assert [(save.n, save.ended is None) for save in saves] == [(20, False), (40, True)]


def test_what_comes_late_belongs_to_its_step():
    run = Writer(steps=2, names=["lr"]).launch().live(only=[0])
    run.say("late", "rank-0-1", n=1, state={"model": "m"}, losses=["0x1p+0"])
    first, second = run.history().incarnations[0].ranks[0].steps
    assert (first.components, first.losses) == ({"model": "m", "lr": "lr@0"}, ("0x1p+0",))
    assert "model" not in second.components


def test_stages_that_are_no_times_are_kept_as_evidence():
    run = Writer().say("fault.requested", fault=0, what={"text": "x"})
    run.say("fault.missed", fault=0, evidence={"missed": "gone"})
    assert run.history().faults[0].evidence == {"missed": "gone"}


def test_loads_errors_and_blindness_are_kept():
    run = Writer().launch().live(until=3, only=[0]).load("a.pt", error="EOFError")
    run.say("probe.error", "rank-0-1", where="step", error="boom")
    run.say("blind", "rank-0-1", component="batch", reason="none seen")
    life = run.history().incarnations[0].ranks[0]
    assert (life.loads[0].path, life.loads[0].ok, life.loads[0].error) == ("a.pt/0", False, "EOFError")
    assert life.errors == ["step: boom"]
    assert life.blind == {"batch": "none seen"}


def test_of_two_processes_with_one_rank_the_one_that_stepped_is_the_rank():
    run = Writer().launch().live(until=5, only=[0])
    run.say("process.start", "other", role="rank", rank=0, pid=1, launch=0, restart=0, world=2)
    assert len(run.history().incarnations[0].ranks[0].steps) == 5


def test_other_processes_are_no_ranks():
    run = Writer().say("process.start", "agent", role="agent", pid=1, launch=0)
    assert run.history().incarnations == []


def test_streams_that_nobody_touched_are_alike():
    def run(value):
        told = Writer(steps=2, names=["rng.python"], tell=lambda *_: value).launch().live(only=[0])
        return told.say("rng0", "rank-0-1", stream="python", value=value).history()

    steps = [life.steps for value in ("a", "b") for _, life in lifetimes(run(value))]
    assert steps[0][0].components == steps[1][0].components == {"rng.python": "untouched"}
    halted = Writer(names=["rng.python"], tell=lambda *_: "a").launch().live(only=[0], halted=[0])
    (life,) = halted.say("rng0", "rank-0-1", stream="python", value="a").history().incarnations[0].ranks.values()
    assert life.halted.components == {"rng.python": "untouched"}


def test_gaps_are_kept():
    assert History.of([RecordGap("rank-0", 3)]).gaps == [RecordGap("rank-0", 3)]


def test_components_are_named_once():
    assert len(set(COMPONENTS)) == len(COMPONENTS)


def write(run, directory):
    """The events as files, as a run has them; returns the files."""
    (directory / "events").mkdir(parents=True)
    writers: dict[str, EventWriter] = {}
    for event in run.events:
        if event.source not in writers:
            writers[event.source] = EventWriter(directory / "events" / f"{event.source}.jsonl")
        writers[event.source].write(event.kind, **event.data)
    for writer in writers.values():
        writer.close()
    return sorted((directory / "events").glob("*.jsonl"))


def test_a_history_is_read_back_from_files(tmp_path):
    write(killed(), tmp_path)
    read, told = History.read(tmp_path), killed().history()
    assert [len(life.steps) for _, life in lifetimes(read)] == [len(life.steps) for _, life in lifetimes(told)]
    assert (read.end, read.gaps, len(read.faults)) == (told.end, [], 1)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_file_cut_anywhere_loses_its_end_and_nothing_else(tmp_path_factory, data):
    directory = tmp_path_factory.mktemp("run")
    files = write(killed(at=6, base=5, steps=8, every=5), directory)
    victim: Path = files[data.draw(st.integers(0, len(files) - 1))]
    whole = victim.read_bytes()
    victim.write_bytes(whole[: round(len(whole) * data.draw(st.floats(0, 1)))])
    history = History.read(directory)
    assert history.gaps == []
    kept = victim.read_bytes().count(b"\n")
    assert kept <= whole.count(b"\n")


def test_an_event_is_read_like_a_mapping():
    event = Event("step", 1.0, "rank-0", {"n": 3})
    assert (event["n"], event.get("x", 7)) == (3, 7)


def rolled_back(**options):
    """A job that goes back from step 25 to the checkpoint of step 20 in its processes."""
    run = Writer(**options)
    run.launch().live(until=25).save(nonfinite=["a"]).live(base=20, back=True, ends=True)
    return run.exit(0).end()


def test_what_follows_on_a_rollback_is_an_incarnation_of_its_own():
    first, second = rolled_back(epochs=[0]).history().incarnations
    assert [(inc.index, inc.launch, inc.restart, inc.taken) for inc in (first, second)] == [
        (0, 0, 0, 0),
        (1, 0, 0, 25),
    ]
    for rank in (0, 1):
        before, after = first.ranks[rank], second.ranks[rank]
        assert list(before.steps.numbers) == list(range(1, 26))
        assert list(after.steps.numbers) == list(range(1, 41))
        assert after.steps[0].components["model"] == "model@20"
        assert [(save.n, save.path) for save in before.saves] == [
            (20, f"step-20.pt/{rank}"),
            (25, f"step-25.pt/{rank}"),
        ]
        assert [(save.n, save.path) for save in after.saves] == [
            (20, f"step-40.pt/{rank}"),
            (40, f"step-60.pt/{rank}"),
        ]
        assert ([load.n for load in before.loads], [load.n for load in after.loads]) == ([], [0])
        assert before.left == before.end == second.start
        assert after.start == min(load.begun for life in second.ranks.values() for load in life.loads)
        assert after.end is not None


def test_what_was_recorded_by_number_is_counted_anew():
    run = Writer().launch().live(until=25).tensors(24, "model", lambda _: {"a": "1"})
    run.live(base=20, until=30, back=True, epochs=[0, 3]).tensors(26, "model", lambda _: {"a": "2"})
    first, second = (inc.ranks[0] for inc in run.history().incarnations)
    assert (first.tensors, second.tensors) == ({24: {"model": {"a": "1"}}}, {1: {"model": {"a": "2"}}})
    assert (first.epochs, second.epochs) == ([], [0, 3])


def right_after_a_save(*, leaves=(21,), read=20):
    """The first step after a checkpoint is left out, and the job reads something: the checkpoint, or another one."""

    def content(rank, position):
        return {"model.w": f"{position:032x}", "step": f"={position}"}

    run = Writer(content=content).launch().live(until=21, leaves=leaves).live(base=20, until=30, back=True)
    for event in run.events:
        if event.kind == "load.end":
            event.data["content"] = content(0, read)
    return [(inc.taken, len(inc.ranks[0].steps)) for inc in run.history().incarnations]


def test_a_rollback_over_a_first_step_that_was_left_out_leaves_the_state_as_it_is():
    assert right_after_a_save() == [(0, 21), (21, 10)]
    assert right_after_a_save(leaves=()) == right_after_a_save(read=10) == [(0, 31)]


def test_the_step_that_a_rank_was_killed_at_is_kept_and_is_not_taken():
    rows, samples = (lambda *_: ["3", "-"]), (lambda *_: ["a", "b"])
    run = Writer(rows=rows, samples=samples).launch().live(until=25, halted=[1]).died()
    zero, one = run.history().incarnations[0].ranks.values()
    assert (len(zero.steps), zero.halted, len(one.steps)) == (25, None, 24)
    assert (one.halted.n, one.halted.components["model"], one.halted.rows) == (25, "model@24", ("3", "-"))
    assert (one.steps[23].rows, one.steps.rows[23], one.steps.part(3, 5).rows) == (("3", "-"), "3 -", ["3 -"] * 2)


def test_a_step_that_was_taken_after_the_halt_is_a_step_alone():
    """So it is at each gate; and of two that a rank halted at, the second follows on an order to raise."""
    run = Writer().launch().live(until=25)
    steps = [event for event in run.events if event.kind == "step"]
    run.events = [
        one for e in run.events for one in ([Event("halt", e.t, e.source, e.data), e] if e in steps else [e])
    ]
    assert [life.halted for _, life in lifetimes(run.history())] == [None, None]


def test_after_a_rollback_the_halt_is_counted_anew():
    run = Writer().launch().live(until=25).live(base=20, until=30, back=True, halted=[1])
    first, second = (inc.ranks[1] for inc in run.history().incarnations)
    assert (first.halted, second.halted.n, len(second.steps)) == (None, 10, 9)


def test_two_rollbacks_are_two_incarnations():
    run = Writer().launch().live(until=25).live(base=20, until=27, back=True).live(base=20, until=30, back=True)
    assert [(inc.taken, len(inc.ranks[0].steps)) for inc in run.history().incarnations] == [
        (0, 25),
        (25, 7),
        (32, 10),
    ]


def test_a_rank_that_does_not_read_for_itself_goes_back_with_the_others():
    run = Writer().launch().live(until=25).live(base=20, until=30, back=True)
    for event in [event for event in run.events if event.source == "rank-1-1"]:
        if event.kind.startswith("load") or event.get("loaded"):
            run.events.remove(event)
            if event.kind == "step":
                run.events.append(Event("step", event.t, event.source, {**event.data, "loaded": False}))
    run.events.sort(key=lambda event: event.t)
    first, second = run.history().incarnations
    assert [len(inc.ranks[1].steps) for inc in (first, second)] == [25, 10]


def test_a_rank_that_ended_before_the_rollback_has_no_part_in_it():
    run = Writer().launch().live(until=25).live(base=20, until=30, only=[0], back=True)
    assert [sorted(inc.ranks) for inc in run.history().incarnations] == [[0, 1], [0]]


def test_after_a_relaunch_the_state_of_an_earlier_launch_counts():
    run = (
        Writer().launch().live(until=25).died().launch().live(base=20, until=30).live(base=20, until=31, back=True)
    )
    assert [(inc.launch, inc.taken) for inc in run.history().incarnations] == [(0, 0), (1, 0), (1, 10)]


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(2, 30)), st.sampled_from(["moves", "stays", "returns"]))
def test_a_load_that_changes_nothing_never_divides_a_life(loaded, model):
    """Data, tables, a checkpoint that is read back to see whether it can be: the state goes on as it does."""

    def tell(name, rank, position):
        moving = {"moves": position, "stays": 0, "returns": position if position < 25 else 24}[model]
        return f"{name}@{moving}"

    run = Writer(tell=tell).launch().live(until=30, ends=True).exit(0).end()
    events = []
    for number, event in enumerate(run.events):
        if event.kind == "step" and event["n"] in loaded:
            call = {"id": 1000 + number, "n": event["n"] - 1}
            events += [
                Event(
                    "load.begin", event.t - 0.002, event.source, {**call, "path": "data.pt", "api": "torch.load"}
                ),
                Event("load.end", event.t - 0.001, event.source, {**call, "ok": True}),
                Event("step", event.t, event.source, {**event.data, "loaded": True}),
            ]
        else:
            events.append(event)
    history = History.of(events)
    assert [(inc.taken, len(inc.ranks[0].steps)) for inc in history.incarnations] == [(0, 30)]
    assert len(history.incarnations[0].ranks[0].loads) == len(loaded)


def test_faults_that_change_a_number_have_the_time_at_which_they_did():
    run = Writer().launch().live(until=30, strike={25: {}})
    (fault,) = run.history().faults
    (event,) = run.history().incarnations[0].ranks[1].corrupted
    assert fault.evidence["since"] == event.t < fault.applied


def test_what_equals_another_run_is_kept_once(tmp_path):
    """The record is the same, whatever run it was read beside; of that run nothing is copied."""
    for name, run in {"control": killed().control(), "again": killed().control(), "run": killed()}.items():
        write(run, tmp_path / name)
    first, second = History.read_controls([tmp_path / "control", tmp_path / "again"])
    run = History.read(tmp_path / "run", like=first)
    own, other = (History.read(tmp_path / name) for name in ("again", "run"))
    assert [life.steps for _, life in lifetimes(second)] == [life.steps for _, life in lifetimes(own)]
    assert [life.steps for _, life in lifetimes(run)] == [life.steps for _, life in lifetimes(other)]
    for _, life in (*lifetimes(second), *lifetimes(run)):
        known = first.incarnations[0].ranks[life.rank].steps
        for name, column in life.steps.columns.items():
            assert column.cells is known.columns[name].cells, name
        assert life.steps.losses.cells is known.losses.cells


def test_steps_that_are_added_to_packed_ones():
    """Of a lifetime that was read: the step that it was killed at; the steps that were read stay as they were."""
    read = killed().history().incarnations[0].ranks[0].steps
    about = replace(read[0], n=len(read) + 1, parts={"model": "a part"}, losses=("0x1p+0", "0x1p+1"))
    longer = read.part(0, len(read))
    longer.append(about)
    assert [*longer] == [*read, about] and len(read) == about.n - 1 and longer.is_whole and read.is_whole
    assert not longer.part(1, 3).is_whole and longer.part(1, 3, less=1).is_whole
    longer.append(replace(about, n=about.n + 2))
    assert not longer.is_whole and list(longer.runs()) == [(0, about.n), (about.n, about.n + 1)]
