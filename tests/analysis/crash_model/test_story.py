"""What stands behind a state, in plain words; and few stories behind many states."""

import pytest

from chaoskit.analysis.crash_model import crash_states, shortest_stories, states, story
from tests.analysis.crash_model.script import Script, held


@pytest.fixture
def script(tmp_path):
    return Script(tmp_path)


def save(script, step, *, fsync=False, size=9000):
    """As many trainers save: a directory under another name, a shard of each rank, a rename."""
    script.mkdir(f"step-{step}.tmp")
    for rank in (0, 1):
        path = f"step-{step}.tmp/__{rank}_0.distcp"
        script.session = rank
        script.create(path)
        script.write(path, b"x" * size)
        if fsync:
            script.fsync(path)
    if fsync:
        script.fsync(f"step-{step}.tmp")
    script.rename(f"step-{step}.tmp", f"step-{step}")
    if fsync:
        script.fsync("")


def found(script, first=0, **options):
    return crash_states(script.journal(), first=first, last=len(script.operations), **options)


def holding(states, **expected):
    return [state for state in states if expected.items() <= held(state).items()]


def test_data_that_were_never_fsynced(script):
    save(script, 40)
    (state,) = holding(found(script), **{"step-40/__0_0.distcp": b"x" * 9000, "step-40/__1_0.distcp": bytes(9000)})
    assert story(state) == (
        "after `rename(step-40.tmp, step-40)` the data of `step-40/__1_0.distcp` may be missing, because it was never "
        "fsynced: it has its size and reads as zeros where nothing was before"
    )
    (state,) = holding(found(script), **{"step-40/__0_0.distcp": b"x" * 9000, "step-40/__1_0.distcp": b""})
    assert story(state).endswith("because it was never fsynced: it is empty")
    assert state.profile == "ext4"


def test_an_fsync_that_comes_too_late(script):
    script.create("tmp")
    script.write("tmp", b"x")
    script.rename("tmp", "new")
    script.fsync("new")
    (state,) = holding(found(script), new=b"\0")
    assert "because it is fsynced only later" in story(state)
    # The window ends before that fsync, and the story still knows of it.
    (state,) = holding(crash_states(script.journal(), first=0, last=3), new=b"\0")
    assert "because it is fsynced only later" in story(state)


def test_an_fsync_that_came_too_early(script):
    script.create("file")
    script.write("file", b"x")
    script.fsync("file")
    script.write("file", b"y")
    script.unlink("file")
    script.create("last")
    crashes = crash_states(script.journal(), first=4, last=4, assume_before=False)
    assert "because it was not fsynced again after that: the last writes are missing" in story(
        holding(crashes, file=b"x")[0]
    )


def test_a_name_that_was_never_forced(script):
    save(script, 40, fsync=True)
    script.operations.pop()
    (state,) = holding(
        crash_states(script.journal(), first=8, last=9, assume_before=False),
        **{"step-40.tmp/__0_0.distcp": b"x" * 9000},
    )
    assert state.profile == "kill"  # a kill before the rename leaves the same
    script.create("done")
    (state,) = holding(
        crash_states(script.journal(), first=9, last=10, assume_before=False), **{"step-40.tmp": None, "done": b""}
    )
    assert story(state) == (
        "after `create(done)`, `rename(step-40.tmp, step-40)` may be undone, because the directory `.` was never "
        "fsynced"
    )


def test_processes_that_die(script):
    script.create("file")
    script.write("file", b"x")
    script.fsync("file")
    assert [story(state) for state in found(script, profiles=["kill"])] == [
        "the processes die before anything is written",
        "the processes die after `write` of 1 byte to `file`",
        "the processes die after `create(file)`",
    ]


def test_one_session_and_one_operation_alone(script):
    for session in (1, 2):
        script.session = session
        for name in "ab":
            script.create(f"{name}{session}")
            script.write(f"{name}{session}", b"x")
    every = crash_states(script.journal(), first=8, last=8, assume_before=False)
    (lost,) = [state for state in every if set(held(state)) == {"a2", "b2"} and held(state)["a2"] == b"x"]
    assert story(lost) == (
        "after `write` of 1 byte to `b2` all that session 1 wrote may be missing, and what others wrote may be "
        "there"
    )
    (alone,) = [state for state in every if set(held(state)) == {"a1"}]
    assert story(alone) == (
        "after `write` of 1 byte to `b2`, `create(a1)` may be on the disk without the name `b1`, the name `a2`, the "
        "name `b2` and 4 more, because no fsync had forced them"
    )


def test_many_states_and_few_stories(script):
    save(script, 20, fsync=True)
    first = len(script.operations)
    save(script, 40)
    every = found(script, first=first)
    wrong = [state for state in every if held(state).get("step-40/__1_0.distcp", b"x" * 9000) != b"x" * 9000]
    assert len(wrong) > 5
    stories = shortest_stories(wrong)
    assert sum(one.count for one in stories) == len(wrong) and len(stories) <= 3
    assert stories[0].text == story(stories[0].state)
    assert "`step-40/__1_0.distcp` may be missing, because it was never fsynced" in stories[0].text
    assert [one.count for one in stories] == sorted((one.count for one in stories), reverse=True)
    assert shortest_stories([]) == ()


def test_kills_are_not_mixed_with_losses(script):
    save(script, 40)
    every = found(script)
    for one in shortest_stories(every):
        assert len({state.profile == "kill" for state in one.states}) == 1


def test_of_too_many_crashes_a_part_is_built_and_that_is_said(script, monkeypatch):
    save(script, 40)
    whole = found(script)
    assert whole.sampling == (
        f"{whole.planned} of {whole.planned} crashes were built; {len(whole)} of the {len(whole)} states that "
        "they leave were chosen"
    )
    monkeypatch.setattr(states, "MOST_EXAMINED", 40)
    part = found(script, seed=3)
    assert (part.planned, part.examined) == (whole.planned, 40) and part.distinct < whole.distinct
    assert part.sampling.endswith("with seed 3")
    digests = {state.digest for state in whole}
    assert {state.digest for state in part} < digests
    assert {state.digest for state in found(script, seed=3)} == {state.digest for state in part}


def test_the_moments_of_a_state_are_those_of_its_causes(script):
    save(script, 40)
    for state in found(script):
        assert state.moments == tuple(sorted({cause.after for cause in state.causes}))
        assert state.cause == state.causes[0] and state.cause.profile == state.profile
