"""The battery against the trainer that survives everything, through the command that users type."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit import Job, checks, faults, targets
from chaoskit.engine.runner import Runner
from chaoskit.verdict import Outcome

REPOSITORY = Path(__file__).resolve().parents[2]


def battery(store, root, expression, *flags, workers="0", trainer=("-m", "tinymodels.train", "--out")):
    """`chaoskit run` on tinymodels, or another trainer: its exit code, the JSON, and everything that it printed. Tests
    run side by side already: each worker of its own would import everything once more."""
    result = subprocess.run(
        [
            sys.executable, "-m", "chaoskit", "run", "--dir", str(store.root), "--json", str(root / "out.json"),
            "--junitxml", str(root / "junit.xml"), "--launch", "warm", "-n", workers, "-k", expression, "--",
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
            *trainer, "{out}", *flags,
        ],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = result.stdout + result.stderr
    return result.returncode, json.loads((root / "out.json").read_text()), said


#: In parts, so that workers share them. Those that are left out, and all of them with FSDP2 and AMP, are run by
#: `make soak`; what they do is tested on smaller trainers in test_runner.py.
PARTS = {
    "ranks": "one_rank_mid_epoch or launcher or middle_of_save or exits",
    "checkpoints": "twice or resume or between_writes or hidden",
    "bad luck": "flipped or write_error or sigterm or not_a_number",
    "damage": "test_damaged or none_is_whole",
    "debris": "misleading or interrupted_saves",
}


@pytest.mark.launches
@pytest.mark.parametrize(
    "expression",
    [pytest.param(k, id=part, marks=() if part == "ranks" else pytest.mark.slow) for part, k in PARTS.items()],
)
def test_the_battery_passes(shared_store, tmp_path, expression):
    workers = "2" if expression == PARTS["ranks"] else "0"
    code, report, said = battery(shared_store, tmp_path, expression, workers=workers)
    assert code == 0 and report["verdict"] == "pass", said
    experiments = report["experiments"]
    assert len(experiments) == 4 and {each["verdict"] for each in experiments} == {"pass"}
    assert "<testcase" in (tmp_path / "junit.xml").read_text()
    names = ("test_one_rank_mid_epoch", "test_launcher")
    killed = [each for each in experiments if each["name"] in names]
    for each in killed:
        # Checkpoints come every ten steps, the second epoch is steps 21 to 40.
        assert (each["resumed_from"], each["last_valid"]) == (30, 30) and 0 < each["steps_lost"] < 10, each
        assert each["recovery_seconds"] > 0 and Path(each["run"]).is_dir()


@pytest.mark.slow
def test_sharded_training_passes(shared_store, tmp_path):
    code, report, said = battery(shared_store, tmp_path, "middle_of_save", "--parallel", "fsdp")
    assert code == 0 and report["verdict"] == "pass", said
    assert len(report["experiments"]) == 1


@pytest.mark.exhaustive
def test_a_pointer_that_does_not_wait_for_the_last_writer(shared_store, tmp_path):
    """Whichever writer is struck first, rank 0 has not written its own part yet: only the last one tells."""
    trainer = (str(REPOSITORY / "tests" / "trainers" / "pointing.py"),)
    torn = "last_writer or middle_of_save or between_writes"
    code, report, said = battery(shared_store, tmp_path, torn, trainer=trainer)
    codes = {each["name"]: each["codes"] for each in report["experiments"]}
    assert code == 1 and codes == {
        "test_last_writer": ["torn-checkpoint", "crash-loop"], "test_middle_of_save": [], "test_between_writes": []
    }, said  # fmt: skip
    code, report, said = battery(shared_store, tmp_path, "last_writer", "--barrier", trainer=trainer)
    assert code == 0 and report["experiments"][0]["resumed_from"] == 4, said
    code, report, said = battery(shared_store, tmp_path, "last_writer")
    assert code == 0 and report["experiments"][0]["verdict"] == "pass", said


@pytest.mark.exhaustive
def test_numbers_that_lie(shared_store, tmp_path):
    """Each is noticed by a look of its own: at the gradient, at all of the state, at the replicas."""
    expression = "(test_nan and (gradient-nan or optimizer-inf)) or test_replica_divergence or replicas_agree"
    looks = ("--check-replicas", "5", "--check-finite", "1")
    code, report, said = battery(shared_store, tmp_path, expression, *looks)
    assert code == 0 and report["verdict"] == "pass", said
    assert len(report["experiments"]) == 5


@pytest.mark.exhaustive
def test_a_step_that_was_far_too_long(shared_store, tmp_path):
    """Who looks out for it goes back, in its processes; whoever does not has lost what it had learnt."""
    code, report, said = battery(shared_store, tmp_path, "lr_spike", "--spike", "1.2", "--rollback-after", "1")
    assert code == 0 and report["experiments"][0]["resumed_from"] == 30, said
    code, report, said = battery(shared_store, tmp_path, "lr_spike")
    assert code == 1 and report["experiments"][0]["codes"] == ["loss-diverged"], said
    assert "not detected" in said


@pytest.mark.slow
def test_a_replica_that_differs_is_named(shared_store):
    """Rank, tensor and step; the trainer's own look, every five steps, finds it too, and the run recovers."""
    job = Job("tinymodels.train", ["--out", "{out}", "--check-replicas", "5"], module=True, nproc_per_node=2)
    flip = faults.bitflip(rank=1, bit=22, into=targets.parameter("head.weight"))
    run = Runner(shared_store, launch="warm").run(job, flip.at_step(22))
    struck, agree, *others = run.judge(
        checks.replicas_agree(),
        checks.detected_within(steps=4),
        checks.rolled_back_cleanly(policy="retried"),
        checks.matches_reference(),
    )
    assert agree.codes == ("ranks-diverged",)
    assert "in step 23 rank 1 differs" in agree.sentence and "(head.weight)" in agree.sentence
    assert {verdict.outcome for verdict in (struck, *others)} == {Outcome.PASS}, others
