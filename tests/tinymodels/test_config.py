"""Bad flags are told in one clear line, before torch is even imported."""

import subprocess
import sys

import pytest

from tinymodels.config import parse


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--batch", "0"], "argument --batch: 0 is not between 1 and inf"),
        (["--dropout", "1.5"], "argument --dropout: 1.5 is not between 0.0 and 1.0"),
        (["--steps", "many"], "unrecognized arguments: --steps many"),
        (["--epochs", "many"], "argument --epochs: invalid int value: 'many'"),
        (["--width", "33"], "--width 33 cannot be divided among --heads 2"),
        (["--global-batch", "30"], "--global-batch 30 cannot be cut into micro-batches of 8"),
        (["--text", "/nowhere.txt"], "--text /nowhere.txt is not a file"),
        (["--model", "rnn"], "argument --model: invalid choice: 'rnn'"),
        (["--keep-best"], "--keep-best compares evaluations: it needs --evaluate-every"),
        (
            ["--format", "pt", "--parallel", "fsdp"],
            "--format pt is one file that rank 0 writes: --parallel fsdp needs",
        ),
        (
            ["--format", "safetensors", "--save-async"],
            "--format safetensors is one file that rank 0 writes: --save-async",
        ),
        (
            ["--format", "pt", "--delta-every", "2"],
            "--format pt is one file that rank 0 writes: --delta-every needs --format dcp",
        ),
        (["--delta-every", "0"], "argument --delta-every: 0 is not between 1 and 100"),
        (["--amp", "--bf16"], "--amp and --bf16 exclude each other: choose one"),
        (["--on-nonfinite", "panic"], "argument --on-nonfinite: invalid choice: 'panic'"),
        (
            ["--on-nonfinite", "off", "--spike", "3"],
            "--spike 3.0 needs the check of each step: it excludes --on-nonfinite off",
        ),
        (["--on-nonfinite", "off", "--rollback-after", "2"], "--rollback-after 2 needs the check of each step"),
        (["--rollback-after", "-1"], "argument --rollback-after: -1 is not between 0 and inf"),
        (["--rollback-lr", "0.5"], "--rollback-lr 0.5 applies to rollbacks: it needs --rollback-after"),
        (["--rollback-lr", "nan"], "argument --rollback-lr: nan is not between 1e-12 and 1.0"),
        (["--spike", "1"], "--spike 1.0 would call every loss bad: it must be more than 1"),
        (
            ["--check-replicas", "5", "--parallel", "fsdp"],
            "--check-replicas compares replicas: --parallel fsdp has",
        ),
    ],
)
def test_bad_flag(flags, told, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(["--out", str(tmp_path), *flags])
    assert stop.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith(f"tinymodels.train: error: {told}")


def test_a_replica_in_the_place_of_the_checkpoints(tmp_path, capsys):
    with pytest.raises(SystemExit):
        parse(["--out", str(tmp_path), "--replica", str(tmp_path / "elsewhere" / ".." / "checkpoints")])
    assert "is the folder of the checkpoints: it must be another one" in capsys.readouterr().err


def test_out_that_is_a_file(tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(SystemExit):
        parse(["--out", str(tmp_path / "taken" / "run")])
    assert "is not a folder that you may write to" in capsys.readouterr().err


def test_config_needs_no_torch(tmp_path):
    argv = ["--out", str(tmp_path)]
    code = f"import sys; from tinymodels.config import parse; parse({argv}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_may_change_between_launches(tmp_path):
    one = parse(["--out", str(tmp_path), "--keep", "1", "--workers", "2"])
    two = parse(["--out", str(tmp_path / "moved"), "--save-every", "3", "--rollback-after", "2"])
    assert one.trajectory() == two.trajectory()
    assert one.trajectory() != parse(["--out", str(tmp_path), "--seed", "7"]).trajectory()
