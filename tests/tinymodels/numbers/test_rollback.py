"""Back to the last valid checkpoint without a new process, and past the samples that did harm: now and ever after."""

import json

import pytest
import torch

from tinymodels.numbers.rollback import Rollback, rate_factor, skipped_steps
from tinymodels.train import Trainer

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5)  # 20 steps of 16 samples, alone
BACK = (*SMALL, "--rollback-after", 1)


def bad_at(*places):
    """A trainer to which the samples at these epochs and positions do harm."""

    class Poisoned(Trainer):
        def micro_step(self, rows, group):
            share = super().micro_step(rows, group)
            return share * float("nan") if (self.data.epoch, self.data.position) in places else share

    return Poisoned


def killed(trainer):
    """The same, killed when a rollback has been written down and nothing else has happened."""

    class Killed(trainer):
        def resume(self, newest):
            if self.rollback_log.rollbacks:
                raise KeyboardInterrupt
            super().resume(newest)

    return Killed


@pytest.fixture
def knowing(train, tmp_path):
    """A run that has known from its beginning what to skip."""

    def run(*entries, flags=BACK):
        out = tmp_path / "knowing"
        out.mkdir()
        (out / "rollbacks.json").write_text(json.dumps(entries))
        assert train(out, *flags) == 0
        return out

    return run


def skips(to, *samples, rate=1.0):
    return {"to": to, "skipped": list(samples), "rate": rate}


def same_weights(one, two):
    from safetensors.torch import load_file

    a, b = load_file(one / "model.safetensors"), load_file(two / "model.safetensors")
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--noise", 0.2, "--workers", 1, "--parallel", "fsdp"),
        ("--save-async", "--bf16", "--global-batch", 16),
        ("--amp", "--delta-every", 3, "--evaluate-every", 4),
    ],
)
def test_goes_back_and_past_the_samples(train, knowing, tmp_path, capsys, flags):
    assert train(tmp_path / "run", *BACK, *flags, trainer=bad_at((0, 112))) == 0
    said = capsys.readouterr().out
    assert "left out: the loss of step 8 is nan\n" in said
    assert "rolling back from step 8 to 5; bad and skipped from now on: 1\nresumed from" in said
    assert "step-00000005 (epoch 0, sample 80)" in said
    assert "finished at step 19" in said  # what is skipped is no step
    assert json.loads((tmp_path / "run/rollbacks.json").read_text()) == [skips(5, [0, 112, 16])]
    there = knowing(skips(5, [0, 112, 16]), flags=(*BACK, *flags))
    assert same_weights(tmp_path / "run", there)
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == (there / "metrics.jsonl").read_bytes()


def test_with_the_guard_off_it_goes_on(train, tmp_path, knowing):
    off = (*SMALL, "--on-nonfinite", "off", "--allow-nonfinite-saves")
    assert train(tmp_path / "run", *off, trainer=bad_at((0, 112))) == 0
    assert not same_weights(tmp_path / "run", knowing(skips(5, [0, 112, 16])))
    assert not (tmp_path / "run/rollbacks.json").exists()


def test_bad_steps_are_left_out_until_there_are_enough(train, knowing, tmp_path, capsys):
    trainer = bad_at((0, 112), (0, 128), (0, 144))  # steps 8, 9 and 10; step 10 would be saved
    assert train(tmp_path / "run", *SMALL, "--rollback-after", 3, trainer=trainer) == 0
    assert "rolling back from step 10 to 5; bad and skipped from now on: 3" in capsys.readouterr().out
    assert same_weights(tmp_path / "run", knowing(skips(5, [0, 112, 16], [0, 128, 16], [0, 144, 6])))


def test_a_good_step_ends_a_row(train, tmp_path, capsys):
    trainer = bad_at((0, 112), (0, 144))
    assert train(tmp_path, *SMALL, "--rollback-after", 2, trainer=trainer) == 0
    said = capsys.readouterr().out
    assert "rolling back" not in said and "finished at step 20" in said
    assert "step 10 is not saved: it may have to be rolled back" in said


def test_a_run_does_not_end_on_a_bad_step(train, knowing, tmp_path, capsys):
    assert train(tmp_path / "run", *SMALL, "--rollback-after", 3, trainer=bad_at((1, 144))) == 0
    said = capsys.readouterr().out
    assert "rolling back from step 20 to 15" in said and "finished at step 19" in said
    assert same_weights(tmp_path / "run", knowing(skips(15, [1, 144, 6])))
    assert train(tmp_path / "run", *BACK) == 0
    assert capsys.readouterr().out.endswith("finished before, at step 19: nothing to do\n")


def test_killed_right_after_it_was_written_down(train, knowing, tmp_path, capsys, assert_same_end):
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", *BACK, trainer=killed(bad_at((0, 112))))
    torch.distributed.destroy_process_group()
    capsys.readouterr()
    assert train(tmp_path / "run", *BACK, trainer=bad_at((0, 112))) == 0
    said = capsys.readouterr().out
    assert "left out" not in said and "rolling back" not in said and "finished at step 19" in said
    assert_same_end(knowing(skips(5, [0, 112, 16])), tmp_path / "run")


def test_checkpoints_remember_too(train, knowing, tmp_path, capsys):
    """The journal is lost, but there is a checkpoint from after the rollback, and from before the samples."""
    out, flags, trainer = tmp_path / "run", (*BACK, "--rollback-lr", 0.5), bad_at((0, 112))
    with pytest.raises(KeyboardInterrupt):
        train(out, *flags, trainer=killed(trainer))
    torch.distributed.destroy_process_group()
    assert train(out, *flags, "--save-every", 1, "--stop-after", 6, trainer=trainer) == 0
    (out / "rollbacks.json").unlink()
    capsys.readouterr()
    assert train(out, *flags, trainer=trainer) == 0
    said = capsys.readouterr().out
    assert "step-00000006" in said and "left out" not in said and "finished at step 19" in said


def rates(out):
    return [json.loads(line)["lr"] for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kill", [False, True])
def test_the_learning_rate_is_lower_from_then_on(train, tmp_path, kill):
    train(tmp_path / "whole", *SMALL)
    flags, trainer = (*BACK, "--rollback-lr", 0.5), bad_at((0, 112))
    if kill:
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run", *flags, trainer=killed(trainer))
        torch.distributed.destroy_process_group()
    train(tmp_path / "run", *flags, "--stop-after", 12, trainer=trainer)
    train(tmp_path / "run", *flags, trainer=trainer)  # from a checkpoint that has the lower rate
    before, after = rates(tmp_path / "whole"), rates(tmp_path / "run")
    assert after[:5] == before[:5] and after[5:] == pytest.approx([rate / 2 for rate in before[5:19]])


def test_without_a_checkpoint_the_launch_ends(train, knowing, tmp_path, capsys):
    trainer = bad_at((0, 32))
    assert train(tmp_path / "run", *BACK, trainer=trainer) == 1
    assert "error: step 3 is bad, and there is no checkpoint to roll back to" in capsys.readouterr().err
    assert train(tmp_path / "run", *BACK, trainer=trainer) == 0
    assert same_weights(tmp_path / "run", knowing(skips(0, [0, 32, 16])))


def test_twice_to_the_same_place_is_for_a_person(train, tmp_path, capsys):
    assert train(tmp_path, *BACK, trainer=bad_at((0, 112), (0, 128))) == 1
    told = capsys.readouterr().err
    assert "error: step 8 is bad, and it was rolled back to step 5 before: that did not help" in told
    assert len(json.loads((tmp_path / "rollbacks.json").read_text())) == 1


def test_twice_to_different_places(train, knowing, tmp_path):
    assert train(tmp_path / "run", *BACK, trainer=bad_at((0, 112), (1, 32))) == 0
    first, second = json.loads((tmp_path / "run/rollbacks.json").read_text())
    assert first == skips(5, [0, 112, 16]) and second == skips(10, [1, 32, 16])
    assert same_weights(tmp_path / "run", knowing(first, second))


def test_back_to_the_copy_of_a_checkpoint_that_was_damaged(train, knowing, tmp_path, capsys):
    class Damaging(bad_at((0, 112))):
        def roll_back(self):
            self.checkpoints.wait_for_replica()  # what is damaged first is never copied
            (tmp_path / "run/checkpoints/step-00000005/shared.pt").write_bytes(b"")
            super().roll_back()

    assert train(tmp_path / "run", *BACK, "--replica", tmp_path / "replica", trainer=Damaging) == 0
    said = capsys.readouterr().out
    assert "refused step-00000005" in said and "restored step-00000005" in said and "from step 8 to 5" in said
    assert same_weights(tmp_path / "run", knowing(skips(5, [0, 112, 16])))


@pytest.mark.parametrize("text", ["[", '{"to": 5}', '[{"to": 5}]', "5"])
def test_a_journal_that_cannot_be_read(train, tmp_path, capsys, text):
    (tmp_path / "rollbacks.json").write_text(text)
    assert train(tmp_path, *BACK) == 1
    assert f"error: {tmp_path / 'rollbacks.json'} cannot be read: " in capsys.readouterr().err


def test_what_they_come_to():
    both = [Rollback(5, ((0, 112, 16), (0, 128, 16)), 0.5), Rollback(10, ((1, 0, 16),), 0.5)]
    assert skipped_steps(both) == {(0, 112), (0, 128), (1, 0)} and rate_factor(both) == 0.25
    assert skipped_steps([]) == frozenset() and rate_factor([]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_ranks_go_back_together(launch, tmp_path, parallel):
    poison = """
    from tinymodels.train import Trainer

    class Poisoned(Trainer):
        def micro_step(self, rows, group):
            share = super().micro_step(rows, group)
            return share * float("nan") if self.data.position == 256 and self.data.epoch == 0 and rank else share

    parts["trainer"] = Poisoned
    """
    flags = ("--epochs", 1, "--save-every", 5, "--rollback-after", 1, "--parallel", parallel)
    codes, said = launch(tmp_path / "run", *flags, part=poison)
    assert codes == [0, 0] and "rolling back from step 9 to 5" in said and "finished at step 19" in said
    (tmp_path / "knowing").mkdir()
    (tmp_path / "knowing/rollbacks.json").write_bytes((tmp_path / "run/rollbacks.json").read_bytes())
    assert launch(tmp_path / "knowing", *flags)[0] == [0, 0]
    assert same_weights(tmp_path / "run", tmp_path / "knowing")
