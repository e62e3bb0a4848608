"""Told to leave, all ranks save and leave together, and the job is not taken for done."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.probe.started import Started
from tinymodels.evaluation import Evaluation
from tinymodels.train import Trainer

CHECKOUT = Path(__file__).resolve().parents[3]
SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5)  # 20 steps, alone


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


class ToldAtStep7(Trainer):
    def log(self, epoch, loss, rate):
        super().log(epoch, loss, rate)
        if self.state.progress.step == 7:
            terminate()


class ToldWhileEvaluating(Evaluation):
    def batch_loss(self, model, rows):
        terminate()
        return super().batch_loss(model, rows)


def test_saves_and_leaves_with_143(train, tmp_path, capsys, assert_same_end):
    train(tmp_path / "whole", *SMALL)
    assert train(tmp_path / "parts", *SMALL, trainer=ToldAtStep7) == 143
    assert capsys.readouterr().out.endswith("told to leave after step 7\n")
    assert train(tmp_path / "parts", *SMALL) == 0
    assert "step-00000007 (epoch 0, sample 112)" in capsys.readouterr().out
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_a_save_that_is_on_its_way_is_published_first(train, tmp_path):
    flags = (*SMALL, "--save-async", "--write-delay", 0.3)
    assert train(tmp_path, *flags, trainer=ToldAtStep7) == 143
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-00000005", "step-00000007"]


def test_in_an_evaluation_too_which_the_next_launch_makes_up_for(train, tmp_path, capsys, assert_same_end):
    flags = (*SMALL, "--evaluate-every", 4, "--patience", 9)
    train(tmp_path / "whole", *flags)
    whole = [line for line in capsys.readouterr().out.splitlines() if line.startswith("evaluated")]
    assert train(tmp_path / "parts", *flags, evaluation=ToldWhileEvaluating) == 143
    assert "evaluated" not in capsys.readouterr().out
    # Told again, at once: nothing is trained before the evaluation is made.
    assert train(tmp_path / "parts", *flags, evaluation=ToldWhileEvaluating) == 143
    assert "step 5" not in capsys.readouterr().out
    assert train(tmp_path / "parts", *flags) == 0
    parts = [line for line in capsys.readouterr().out.splitlines() if line.startswith("evaluated")]
    assert parts == whole and len(whole) == 5
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_the_handler_is_put_back(train, tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    train(tmp_path, *SMALL, "--stop-after", 1)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_one_rank_of_two_is_told(launch, tmp_path, assert_same_end):
    def tell(line, ranks):
        if line.startswith("step 13 "):
            ranks[1].send_signal(signal.SIGTERM)

    launch(tmp_path / "whole", "--epochs", 1)
    codes, said = launch(tmp_path / "parts", "--epochs", 1, seen=tell)
    assert codes == [143, 143] and "told to leave after step 1" in said
    codes, said = launch(tmp_path / "parts", "--epochs", 1)
    assert codes == [0, 0] and "resumed from" in said and "step 13 " not in said
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_told_because_a_peer_died(launch, tmp_path):
    """As a launcher does it: nobody waits for the dead, though the collective times out much later."""

    def strike(line, ranks):
        if line.startswith("step 13 "):
            ranks[1].kill()
            ranks[0].send_signal(signal.SIGTERM)

    codes, _ = launch(tmp_path, "--timeout", 600, seen=strike, timeout=20)
    assert codes[0] in (1, -signal.SIGABRT) and codes[1] == -signal.SIGKILL


@pytest.mark.slow
def test_torchrun_is_told_and_tells_all(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "tinymodels.train", "--out", str(tmp_path), "--device", "cpu", "--epochs", "50"]
    torchrun = Started(command, env=dict(os.environ), cwd=CHECKOUT, log=tmp_path / "output.txt")
    try:
        said = []
        for line in torchrun.lines():
            said.append(line)
            if line.startswith("step 13 "):
                torchrun.send_signal(signal.SIGTERM)
        assert torchrun.wait(timeout=30) != 0
    finally:
        torchrun.close()
    *_, last = (line for line in said if line.startswith(("step ", "told ")))
    told = int(last.removeprefix("told to leave after step "))
    assert (tmp_path / "checkpoints" / f"step-{told:08d}").is_dir()
