"""The witness: lines of a log, wherever a job leaves it, become events."""

import sys
from pathlib import Path

import pytest

from chaoskit import Job, checks, faults
from chaoskit.analysis.record.harness_record import LogLine
from chaoskit.analysis.record.history import History
from chaoskit.engine import job_log
from chaoskit.engine.runner import Runner
from chaoskit.protocol.events import EventWriter
from chaoskit.verdict import Outcome

REGEX = r"^step (?P<step>\S+) loss (?P<loss>\S+)"
TRAINER = Path(__file__).parents[1] / "trainers" / "alone.py"


@pytest.fixture
def told(tmp_path):
    """Call it with files of a run and their content; it answers with the log lines that the record has then."""

    def read(files, *, regex=REGEX, log_file=None):
        for name in ("events", "out", "logs"):
            (tmp_path / name).mkdir(exist_ok=True)
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        writer = EventWriter(tmp_path / "events" / "harness.jsonl")
        writer.write("launch.start", launch=0)
        job_log.record(tmp_path, Job("x.py", ["{out}"], log_regex=regex, log_file=log_file), writer)
        writer.close()
        return list(History.read(tmp_path).log)

    return read


def test_one_log_for_all(told):
    text = (
        "[default0]:step 1 loss 0.5\n[default1]:step 1 loss 0.25\nstep 2 loss 1e-3\r\n[rank0]: step 3 loss nan\n"
    )
    assert told({"logs/launch-0.log": text, "logs/launch-1.log": "hello\nstep 2 loss 7\n"}) == [
        LogLine(0, None, "rank 0", 1, 1, "0.5"),
        LogLine(0, None, "rank 1", 2, 1, "0.25"),
        LogLine(0, None, "", 3, 2, "1e-3"),
        LogLine(0, None, "rank 0", 4, 3, "nan"),
        LogLine(1, None, "", 2, 2, "7"),
    ]


def test_what_tells_nothing(told):
    assert told({}) == []
    lines = [
        "epoch 1",
        "step 3/40 loss 1",
        "step ten loss 1",
        "loss 0.5 step 1",
        "",
        "\x1b[0m\0",
        "step 5 loss 0.12",
    ]
    assert told({"logs/launch-0.log": "\n".join(lines)}) == [], "the last line was cut short"
    assert told({"logs/launch-0.log": "step 5 loss 0.5\n"}, regex=None) == []


def test_the_ranks_own_logs_are_better(told):
    """In the common one two writers can meet inside a line."""
    ranks = "logs/ranks/launch-0/3f-id_x1"
    files = {
        "logs/launch-0.log": "[default0]:step 1 lo[default1]:hello\nss 0.5\nstep 9 loss 9\n",
        f"{ranks}/attempt_0/0/stdout.log": "step 1 loss 0.5\n",
        f"{ranks}/attempt_0/1/stderr.log": "[rank1]: step 1 loss 0.7\n",
        f"{ranks}/attempt_1/0/stdout.log": "\nstep 1 loss 0.5\n",
        "logs/launch-1.log": "step 2 loss 0.4\n",
        "logs/ranks/launch-1/3f-id_x2/attempt_0/0/stdout.log": "hello\n",
    }
    assert told(files) == [
        LogLine(0, 0, "rank 0", 1, 1, "0.5"),
        LogLine(0, 0, "rank 1 (stderr)", 1, 1, "0.7"),
        LogLine(0, 1, "rank 0", 2, 1, "0.5"),
        LogLine(1, None, "", 1, 2, "0.4"),
    ]


def test_a_document(told):
    files = {"out/logs/train.log": "step 1 loss 0.5\nstep 2 loss 0.4\n", "logs/launch-0.log": "step 9 loss 9\n"}
    kept = told(files, log_file="logs/train.log")
    assert kept == [LogLine(None, None, "", 1, 1, "0.5"), LogLine(None, None, "", 2, 2, "0.4")]


def test_a_document_that_is_not_there(told):
    assert told({"logs/launch-0.log": "step 9 loss 9\n"}, log_file="train.log") == []


def test_there_is_an_end_to_it(told, monkeypatch):
    monkeypatch.setattr(job_log, "LINES", 3)
    assert [line.step for line in told({"logs/launch-0.log": "".join(f"step {n} loss 1\n" for n in range(9))})] == [
        0, 1, 2,
    ]  # fmt: skip


PRINT = 'print(f"step {index + 1} loss {loss:.4f}")'
APPEND = "with open(args.out / 'log', 'a') as log: log.write(f'{index + 1} {float(loss).hex()}\\n')"


@pytest.mark.launches
@pytest.mark.parametrize(
    ("added", "log", "codes"),
    [
        pytest.param(PRINT, {"log_regex": REGEX}, (), marks=pytest.mark.slow),
        pytest.param(
            *(f"{PRINT}; index == done > 0 and {PRINT}", {"log_regex": REGEX}, ("log-wrong",)), marks=pytest.mark.slow
        ),
        (APPEND, {"log_regex": r"^(?P<step>\d+) (?P<loss>.*)", "log_file": "log"}, ("log-wrong",)),
    ],
    ids=["right", "double-first", "replayed"],
)
def test_the_log_of_a_real_job(shared_store, tmp_path, added, log, codes):
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER.read_text().replace("    time.sleep(args.pace)\n", f"    {added}\n"))
    job = Job.from_command([sys.executable, str(script), "--out", "{out}"], **log)
    run = Runner(shared_store, launch="warm").run(job, faults.kill(rank=0).at_step(8))
    right, exact = run.judge(checks.log_right(), checks.matches_reference())[1:]
    assert (right.codes, exact.outcome) == (codes, Outcome.PASS), right.sentence
    if codes:
        assert "step 7 is printed again" in right.sentence
