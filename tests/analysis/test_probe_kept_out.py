"""A reference that is blind because the command keeps the probe out: the sentence names the word."""

import json

import pytest

from chaoskit.analysis.record.history import History
from chaoskit.analysis.reference.controls import require_complete
from chaoskit.analysis.reference.probe_kept_out import kept_out
from chaoskit.errors import ReferenceFailed


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("python -I t.py", "-I, which ignores PYTHONPATH"),
        ("/x/python3.11 -uE -m t", "-E"),
        ("env A=1 python3 -S t.py", "-S, which runs no sitecustomize"),
        ("env -i python t.py", "without the environment"),
        ("env PYTHONPATH=src python t.py", "PYTHONPATH=src"),
    ],
)
def test_what_keeps_it_out(command, named):
    found = kept_out(command.split())
    assert found is not None and named in found.why and found.remedy


@pytest.mark.parametrize(
    "command",
    [
        "python t.py -I", "python -u -m t -E", "python -c SIE", "python -X importtime t.py -I", "python -W ignore t.py",
        "env A=1 t.sh PYTHONPATH=x", "torchrun t.py", "bash -c x", "python", "",
    ],
)  # fmt: skip
def test_what_does_not(command):
    assert kept_out(command.split()) is None


@pytest.mark.parametrize(
    ("command", "said", "advice"),
    [
        (
            ["python", "-I", "t.py"],
            "the probe was kept out of the command: it starts Python with -I",
            "without -I",
        ),
        (["./train.sh"], "the probe recorded no training. If the job does train: the probe comes in by", ""),
    ],
)
def test_the_sentence_about_a_blind_reference(tmp_path, command, said, advice):
    (tmp_path / "events").mkdir()
    events = [
        {"e": "launch.start", "launch": 0, "command": command, "out": "/o"},
        {"e": "launch.end", "launch": 0, "code": 0, "cause": "itself", "survivors": []},
        {"e": "run.end", "status": "finished"},
    ]
    lines = [json.dumps({"i": at, "t": float(at), **event}) + "\n" for at, event in enumerate(events)]
    (tmp_path / "events" / "harness.jsonl").write_text("".join(lines))
    with pytest.raises(ReferenceFailed) as raised:
        require_complete(History.read(tmp_path), "Control 1 of 2")
    assert said in str(raised.value) and raised.value.code == "probe-blind"
    assert raised.value.advice.endswith(advice) and bool(raised.value.advice) == bool(advice)
