"""The point of it all: a run that was interrupted ends as the one that was not, to the bit."""

import signal

import pytest

from tinymodels.checkpoints.state import State

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5, "--log-hex")  # 20 steps, alone


def steps(text):
    return [line for line in text.splitlines() if line.startswith("step ")]


@pytest.mark.parametrize(
    ("stop", "flags"),
    [
        (8, ()),
        (13, ("--model", "mlp", "--amp", "--noise", 0.2)),
        (14, ("--parallel", "fsdp", "--workers", 1, "--save-every", 3)),
    ],
    ids=["gpt", "mlp-amp-noise", "fsdp-workers"],
)
def test_resumes_exactly(train, tmp_path, capsys, assert_same_end, stop, flags):
    assert train(tmp_path / "whole", *SMALL, *flags) == 0
    whole = steps(capsys.readouterr().out)
    assert train(tmp_path / "parts", *SMALL, *flags, "--stop-after", stop) == 0
    first = steps(capsys.readouterr().out)
    assert train(tmp_path / "parts", *SMALL, *flags) == 0
    second = capsys.readouterr().out
    assert "resumed from" in second
    assert len(whole) == 20 and first == whole[:stop]
    assert steps(second) == whole[-len(steps(second)) :] and len(steps(second)) > 20 - stop
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_resumes_exactly_at_the_end_of_an_epoch(train, tmp_path, capsys, assert_same_end):
    train(tmp_path / "whole", *SMALL)
    train(tmp_path / "parts", *SMALL, "--stop-after", 10)
    capsys.readouterr()
    train(tmp_path / "parts", *SMALL)
    assert "(epoch 1, sample 0)" in capsys.readouterr().out
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_a_finished_run_stays_finished(train, tmp_path, capsys):
    train(tmp_path, *SMALL)
    before = (tmp_path / "model.safetensors").stat()
    capsys.readouterr()
    assert train(tmp_path, *SMALL) == 0
    assert capsys.readouterr().out == "finished before, at step 20: nothing to do\n"
    assert (tmp_path / "model.safetensors").stat() == before


def test_falls_back_past_a_damaged_checkpoint_and_still_ends_the_same(train, tmp_path, capsys, assert_same_end):
    train(tmp_path / "whole", *SMALL)
    train(tmp_path / "parts", *SMALL, "--stop-after", 12)
    shard = next((tmp_path / "parts/checkpoints/step-00000010/sharded").glob("*.distcp"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    capsys.readouterr()
    assert train(tmp_path / "parts", *SMALL) == 0
    said = capsys.readouterr().out
    assert f"refused step-00000010: sharded/{shard.name} does not match its checksum" in said
    assert "resumed from" in said and "step-00000005" in said
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_none_valid_is_one_clear_line(train, tmp_path, capsys):
    train(tmp_path, *SMALL, "--stop-after", 5)
    (tmp_path / "checkpoints/step-00000005/shared.pt").unlink()
    assert train(tmp_path, *SMALL) == 1
    assert "tinymodels.train: error: none of the 1 checkpoints" in capsys.readouterr().err


def test_learns(train, tmp_path, capsys):
    train(tmp_path, "--epochs", 1, "--accumulate", 1)
    losses = [float(line.split()[5]) for line in steps(capsys.readouterr().out)]
    assert sum(losses[-5:]) / 5 < losses[0] - 0.3


def test_a_part_can_be_exchanged(train, tmp_path, capsys, assert_same_end):
    """The seams are real: forget one component, and the run ends elsewhere."""

    class Forgetful(State):
        def restore_rng(self, saved):
            pass

    train(tmp_path / "whole", *SMALL)
    train(tmp_path / "parts", *SMALL, "--stop-after", 8)
    train(tmp_path / "parts", *SMALL, state=Forgetful)
    with pytest.raises(AssertionError):
        assert_same_end(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_two_ranks_killed_and_relaunched(launch, tmp_path, assert_same_end):
    """A rank dies without a word; the next launch ends as if nothing had happened."""

    def kill(line, ranks):
        if line.startswith("step 24 "):
            ranks[1].send_signal(signal.SIGKILL)

    flags = ("--log-hex", "--epochs", 2)
    codes, whole = launch(tmp_path / "whole", *flags)
    assert codes == [0, 0] and len(steps(whole)) == 40
    codes, _ = launch(tmp_path / "parts", *flags, seen=kill)
    # Rank 0 noticed, and did not wait for ever; gloo may abort it on its way out, which is torch's own affair.
    assert codes[0] in (1, -signal.SIGABRT) and codes[1] == -signal.SIGKILL
    codes, rest = launch(tmp_path / "parts", *flags)
    rest = steps(rest)
    assert codes == [0, 0] and rest == steps(whole)[-len(rest) :] and len(rest) < 40
    assert_same_end(tmp_path / "whole", tmp_path / "parts")
