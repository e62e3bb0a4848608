"""Consequences are told from causes by what the verdicts show, and by nothing else."""

from chaoskit.engine.consequences import causes_of
from chaoskit.verdict import failed, passed


def finding(code, component, *, rank=0, found=(0,), expected=10, incarnation=1, more=()):
    return {
        "code": code, "component": component, "rank": rank, "incarnation": incarnation, "step": expected + 1,
        "expected": expected, "found": None if found is None else list(found), "more": list(more),
    }  # fmt: skip


def restored(*findings, ranks=2):
    codes = dict.fromkeys(code for one in findings for code in (one["code"], *one["more"]))
    table = [{"incarnation": 1, "rank": rank, "cells": {}} for rank in range(ranks)]
    return failed("state_restored", "lost", *codes, findings=list(findings), table=table)


def test_how_a_job_ended_follows_from_what_a_save_left():
    end = failed("completed", "did not recover", "torn-checkpoint", "checkpoint-lost", "crash-loop")
    assert causes_of([end]) == {"checkpoint-lost": "torn-checkpoint", "crash-loop": "torn-checkpoint"}
    lost = failed("completed", "did not recover", "checkpoint-lost", "torn-checkpoint", "crash-loop")
    assert set(causes_of([lost]).values()) == {"checkpoint-lost"}
    assert causes_of([failed("completed", "did not recover", "crash-loop")]) == {}


def test_two_losses_at_one_resume_stay_two():
    both = restored(finding("optimizer-not-restored", "optimizer"), finding("rng-not-restored", "rng.torch"))
    assert causes_of([both]) == {}


def test_a_rank_that_loaded_nothing_is_wrong_in_everything_at_once():
    lost = [finding("model-not-restored", "model", rank=1), finding("optimizer-not-restored", "optimizer", rank=1)]
    assert causes_of([restored(*lost)]) == {"optimizer-not-restored": "model-not-restored"}
    # Every rank: then there may be two causes.
    every = [*lost, *({**one, "rank": 0} for one in lost)]
    assert causes_of([restored(*every)]) == {}
    # Another rank, too: the optimizer was lost by itself.
    other = [*lost, finding("optimizer-not-restored", "optimizer", rank=0)]
    assert causes_of([restored(*other)]) == {}


def test_the_rate_follows_the_optimizer_if_the_schedule_sets_it_right():
    lost = restored(finding("optimizer-not-restored", "optimizer"), finding("lr-schedule-off", "lr"), ranks=1)

    def differing(*steps):
        return failed(
            "matches_reference", "differs", "optimizer-not-restored", "lr-schedule-off",
            differences=[{"step": n, "rank": 0, "incarnation": 1, "values": values} for n, values in steps],
        )  # fmt: skip

    once = differing((11, {"lr": ["a", "b"]}), (12, {"loss": ["a", "b"]}))
    assert causes_of([lost, once]) == {"lr-schedule-off": "optimizer-not-restored"}
    again = differing((11, {"lr": ["a", "b"]}), (12, {"lr": ["a", "b"], "loss": ["a", "b"]}))
    assert causes_of([lost, again]) == {}
    assert causes_of([lost, differing((11, {"lr": ["a", "b"]}))]) == {}


def test_buffers_and_streams_that_match_nothing_follow_from_another_batch():
    batch = finding("data-replayed", "batch", found=(), more=("data-skipped",))
    moved = finding("rng-not-restored", "rng.torch", found=())
    assert causes_of([restored(batch, moved)]) == {
        "data-skipped": "data-replayed", "rng-not-restored": "data-replayed",
    }  # fmt: skip
    lost = finding("rng-not-restored", "rng.torch", found=(0,))
    assert "rng-not-restored" not in causes_of([restored(batch, lost)])


def test_who_runs_out_of_data_ends_early():
    end = failed("completed", "short", "exited-early", reached={"0": 50, "1": 50}, code=0)

    def skipped(first):
        return failed("same_data", "skipped", "data-skipped", ledger={"first_skipped": {"step": first, "rank": 0}})

    assert causes_of([end, skipped(11)]) == {"exited-early": "data-skipped"}
    assert causes_of([end, skipped(51)]) == {"data-skipped": "exited-early"}


def test_what_was_read_from_an_altered_checkpoint_is_its_consequence():
    faithful = failed(
        "checkpoints_faithful", "altered", "corrupt-accepted",
        altered=[{"incarnation": 1, "rank": 0, "keys": ["rng.torch"]}],
    )  # fmt: skip
    stream = restored(finding("rng-not-restored", "rng.torch"))
    assert causes_of([faithful, stream]) == {"rng-not-restored": "corrupt-accepted"}
    # The altered file has no schedule, and another resume has nothing to do with it.
    rate = restored(finding("lr-schedule-off", "lr"))
    assert causes_of([faithful, rate]) == {}
    later = restored(finding("rng-not-restored", "rng.torch", incarnation=2))
    assert causes_of([faithful, later]) == {}


def test_a_wrong_number_is_the_cause_only_where_a_fault_put_it_in():
    verdicts = [
        failed("resumed_from_last_valid", "altered", "corrupt-accepted", resumes=[]),
        failed("stays_finite", "nan", "nonfinite-accepted"),
    ]
    assert causes_of(verdicts, ["overwrite", "kill"]) == {"nonfinite-accepted": "corrupt-accepted"}
    taken = [failed("detected_within", "nan", "nonfinite-accepted"), failed("completed", "loop", "crash-loop")]
    assert causes_of(taken, ["nan", "kill"]) == {"crash-loop": "nonfinite-accepted"}


def test_a_rollback_to_a_wrong_state_has_one_cause():
    verdicts = [
        failed("no_poisoned_checkpoint", "saved", "corruption-saved"),
        failed("rolled_back_cleanly", "back", "buffers-not-restored", "optimizer-not-restored", "rng-not-restored"),
    ]
    found = causes_of(verdicts, ["nan"])
    assert set(found.values()) == {"optimizer-not-restored"} and len(found) == 3


def test_ranks_that_read_different_checkpoints_are_the_cause_of_all_that_follows():
    verdicts = [
        failed("completed", "timed out", "crash-loop"),
        failed("resumed_from_last_valid", "apart", "ranks-diverged", resumes=[]),
        restored(finding("model-not-restored", "model", rank=1)),
        failed("checkpoints_faithful", "other", "corrupt-accepted", altered=[{"incarnation": 1, "position_read": 10}]),
    ]
    assert set(causes_of(verdicts, ["kill"]).values()) == {"ranks-diverged"} and len(causes_of(verdicts)) == 3
    # A file that holds what was never saved is another matter.
    verdicts[-1] = failed("checkpoints_faithful", "other", "corrupt-accepted", altered=[{"incarnation": 1, "keys": []}])
    assert "corrupt-accepted" not in causes_of(verdicts, ["kill"])


def test_a_wrong_batch_size_is_the_cause_where_it_is_wrong_at_once():
    resumes = passed("resumed_from_last_valid", "right", resumes=[{"incarnation": 1, "resumed_from": 28}])
    data = failed("same_data", "again", "data-replayed", ledger={})

    def changed(step):
        return failed("global_batch_kept", "other", "global-batch-changed", wrong=[{"step": step, "incarnation": 1}])

    assert causes_of([resumes, data, changed(29)]) == {"data-replayed": "global-batch-changed"}
    assert causes_of([resumes, data, changed(40)]) == {"global-batch-changed": "data-replayed"}


def test_no_code_is_the_cause_of_its_own_cause():
    for codes in (("torn-checkpoint", "checkpoint-lost"), ("global-batch-changed", "data-replayed")):
        found = causes_of([failed("completed", "x", *codes)])
        assert all(found.get(cause) is None for cause in found.values())


def test_a_stream_that_matches_no_step_came_from_the_altered_file_whatever_its_key():
    altered = failed(
        "checkpoints_faithful", "altered", "corrupt-accepted",
        altered=[{"incarnation": 1, "rank": 0, "keys": ["streams.0"]}],
    )  # fmt: skip
    strange = restored(finding("rng-not-restored", "rng.torch", found=()))
    assert causes_of([strange, altered]) == {"rng-not-restored": "corrupt-accepted"}
    # One that began again was lost.
    assert causes_of([restored(finding("rng-not-restored", "rng.torch")), altered]) == {}
