"""What is made of a type conforms to it and comes back. What is damaged is refused by its name, for every type."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

from chaoskit import schema
from chaoskit.engine.kept_state import KeptRecord
from chaoskit.engine.reference_store import ReferenceRecord
from chaoskit.engine.result import Result
from chaoskit.engine.run_store import JudgedRecord, RunRecord
from chaoskit.errors import UsageError
from chaoskit.job import Job
from chaoskit.protocol.io_journal import Operation
from chaoskit.protocol.putting_back import StoredOrder
from chaoskit.schema import SchemaError, conform
from chaoskit.studies.nights.baseline import StoredBaseline
from chaoskit.studies.nights.conditions import Conditions
from chaoskit.studies.nights.stored_suite import EndLine, SuiteDocument, SuiteHead, SuiteLine
from chaoskit.studies.problems.problem import Problem, Proof
from chaoskit.verdict import Verdict
from tests.stored.documents import Damage, damaged, documents
from tests.stored.holding import COUNTS, hold

KINDS = (
    RunRecord, JudgedRecord, Verdict, Result, SuiteHead, SuiteLine, EndLine, SuiteDocument, Proof, Problem, Conditions,
    StoredBaseline, ReferenceRecord, KeptRecord, Operation, StoredOrder, Job,
)  # fmt: skip


def plain(value: Any) -> Any:
    """JSON again of what `conform` made."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value) if each.init}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, Sequence | frozenset) and value != str(value) else value


def comes_back(kind: Any, document: Any) -> str:
    """The property of valid documents: they are read, and what was read can be stored and read again."""
    read = conform(kind, json.loads(json.dumps(document)))
    again = conform(kind, json.loads(json.dumps(plain(read))))
    assert again == read
    return "came back"


def is_refused(kind: Any, damage: Damage) -> str:
    """The property of damaged documents: an error that names the place, wherever the type says that it is wrong, and no
    other exception in any case."""
    try:
        conform(kind, json.loads(json.dumps(damage.document)))
    except (SchemaError, UsageError) as error:
        # An object that its own constructor refuses is named as a whole.
        assert not damage.must_be_refused or damage.name in str(error), f"{damage.name} not in {error}"
        assert len(str(error)) < 400
        return f"{damage.what}, refused"
    assert not damage.must_be_refused, f"accepted, although {damage.name} is wrong ({damage.what})"
    return f"{damage.what}, accepted"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_valid_document_comes_back(kind):
    hold(kind.__name__, documents(kind), lambda one: comes_back(kind, one), examples=8)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_damaged_document_is_refused_by_the_name_of_its_field(kind):
    hold(kind.__name__, damaged(kind), lambda one: is_refused(kind, one), examples=25)


@pytest.mark.slow
def test_many_valid_and_damaged_documents():
    for kind in KINDS:
        hold(kind.__name__, documents(kind), lambda one, kind=kind: comes_back(kind, one), examples=30)
        hold(kind.__name__, damaged(kind), lambda one, kind=kind: is_refused(kind, one), examples=100)
    print(f"\n{sum(COUNTS.values())} documents", *(f"{count:>7}  {what}" for what, count in COUNTS.items()), sep="\n")


@pytest.mark.parametrize(
    ("name", "broken", "kind"),
    [
        ("_PLAIN", {**schema._PLAIN, str: lambda value: value}, SuiteHead),
        ("_PLAIN", {**schema._PLAIN, int: lambda value: int(value)}, Operation),
        ("_PLAIN", {**schema._PLAIN, str: lambda value: value.strip()}, SuiteHead),
        ("_any", lambda value, depth=0: value, JudgedRecord),
        ("_sequence", lambda own, origin: lambda value: [own(each) for each in value], ReferenceRecord),
        ("_fields", lambda hints, needed, make: lambda value: make(value, value), Proof),
    ],
    ids=["any type", "numbers of texts", "a raw exception", "any depth", "no list, no index", "any field"],
)
def test_the_property_sees_a_broken_schema(monkeypatch, name, broken, kind):
    monkeypatch.setattr(schema, name, broken)
    schema.reader.cache_clear()
    try:
        with pytest.raises((AssertionError, AttributeError, TypeError, ValueError)):
            hold("broken", damaged(kind), lambda one: is_refused(kind, one), examples=200, shrink=False)
    finally:
        schema.reader.cache_clear()


def test_the_property_sees_what_does_not_come_back(monkeypatch):
    monkeypatch.setitem(schema._PLAIN, str, lambda value: value + " ")
    schema.reader.cache_clear()
    try:
        with pytest.raises(AssertionError):
            hold("broken", documents(Proof), lambda one: comes_back(Proof, one), examples=9, shrink=False)
    finally:
        schema.reader.cache_clear()
