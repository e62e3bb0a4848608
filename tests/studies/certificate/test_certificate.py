"""The answer of a certificate, and its JSON."""

import json
from dataclasses import replace

import pytest

from chaoskit.schema import SchemaError
from chaoskit.studies.certificate.certificate import Certificate, digest_of
from chaoskit.studies.certificate.judging import judge
from chaoskit.studies.certificate.sources import Basis
from tests.studies.certificate.by_hand import evidence


def made(**fields):
    known = {
        "job": "torchrun train.py",
        "created": "2026-11-26T10:00:00+00:00",
        "evidence_since": "2026-11-25T10:00:00+00:00",
        "valid_until": "2026-12-25T10:00:00+00:00",
        "rows": judge(evidence()),
        "basis": Basis({"/p/train.py": "ab"}),
        "evidence": {"run-1": "cd"},
    }
    return Certificate(**{**known, **fields})


@pytest.mark.parametrize(
    ("states", "answer", "code"),
    [
        (["proven", "accepted", "not-applicable"], "ready", 0),
        (["proven", "not-tested"], "not-proven", 3),
        (["proven", "not-tested", "failed"], "not-ready", 1),
        (["accepted", "not-applicable"], "not-proven", 3),
        (["not-applicable"], "not-proven", 3),
        ([], "not-proven", 3),
    ],
)
def test_a_certificate_is_never_ready_by_default(states, answer, code):
    row = made().rows[0]
    one = made(rows=tuple(replace(row, id=state, state=state) for state in states))
    assert one.answer == answer and one.exit_code == code


def test_json_and_back():
    one = made()
    told = json.loads(json.dumps(one.to_json()))
    assert Certificate.from_json(told) == one and told["digest"] == digest_of(told)
    assert told["answer"] == "ready" and told["schema"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "x"}, {"schema": 2}, {"rows": "x"}, {"rows": [{"id": "x"}]}, {"job": 3}, {"basis": None},
        {"evidence": {"run": 1}},
    ],
)  # fmt: skip
def test_another_document_is_no_certificate(change):
    with pytest.raises(SchemaError):
        Certificate.from_json({**made().to_json(), **change})


def test_a_state_that_does_not_exist_is_refused():
    told = made().to_json()
    told["rows"][0]["state"] = "green"
    with pytest.raises(SchemaError, match="state"):
        Certificate.from_json(told)
