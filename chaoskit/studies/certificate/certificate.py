"""`Certificate`: the checklist of a job with what it rests on, as JSON that shows whether somebody has edited it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from chaoskit.errors import ExitCode
from chaoskit.schema import SchemaError, conform
from chaoskit.studies.certificate.row import RowState, State
from chaoskit.studies.certificate.sources import Basis

SCHEMA = 1
KIND = "chaoskit certificate"
#: A certificate is valid for at most this long after its oldest evidence.
VALID = timedelta(days=30)
Answer = Literal["ready", "not-ready", "not-proven"]
ANSWERS: dict[Answer, tuple[str, ExitCode]] = {
    "ready": ("ready", ExitCode.PASS),
    "not-ready": ("not ready", ExitCode.FAIL),
    "not-proven": ("not proven", ExitCode.INCONCLUSIVE),
}


@dataclass(frozen=True)
class Certificate:
    """`created` is when it was made and `evidence_since` when its oldest suite began, `valid_until` 30 days after that
    (all UTC). `suites` are the ids of the suites, `environments` where they ran. `evidence` maps each run to the digest
    over it."""

    job: str
    created: str
    evidence_since: str
    valid_until: str
    rows: tuple[RowState, ...]
    basis: Basis
    suites: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """`ready` only if every row is proven, accepted or does not apply, and one is proven at least."""
        states = {row.state for row in self.rows}
        if "failed" in states:
            return "not-ready"
        return "ready" if "proven" in states and "not-tested" not in states else "not-proven"

    @property
    def word(self) -> str:
        """The answer as people read it."""
        return ANSWERS[self.answer][0]

    @property
    def exit_code(self) -> ExitCode:
        """0 ready, 1 a row failed, 3 a row is not tested."""
        return ANSWERS[self.answer][1]

    def count(self, state: State) -> int:
        """How many rows are in a state."""
        return sum(row.state == state for row in self.rows)

    @property
    def evidence_digest(self) -> str:
        """A digest over all evidence."""
        return hashlib.sha256(json.dumps(sorted(self.evidence.items())).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The document, with a digest over all the rest of it."""
        content = {
            "schema": SCHEMA, "kind": KIND, "answer": self.answer, "job": self.job, "created": self.created,
            "evidence_since": self.evidence_since, "valid_until": self.valid_until, "suites": list(self.suites),
            "environments": list(self.environments), "rows": [row.to_json() for row in self.rows],
            "sources_digest": self.basis.digest, "basis": self.basis.to_json(), "evidence": dict(self.evidence),
            "evidence_digest": self.evidence_digest, "notes": list(self.notes),
        }  # fmt: skip
        return {**content, "digest": digest_of(content)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Certificate:
        """The inverse of `to_json`, without its digests. Raises ValueError, naming the field."""
        if data.get("kind") != KIND:
            raise SchemaError(f"must have the kind {KIND!r}", data.get("kind"))
        if data.get("schema") != SCHEMA:
            raise SchemaError(
                f"has a schema that this chaoskit does not read (it reads {SCHEMA})", data.get("schema")
            )
        return conform(cls, data)


def digest_of(document: Mapping[str, Any]) -> str:
    """The digest over a document, except for its own field `digest`."""
    content = {name: value for name, value in document.items() if name != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def dated(one: Certificate, *, since: datetime, now: datetime) -> Certificate:
    """The certificate with its dates."""

    def text(moment: datetime) -> str:
        return moment.astimezone(UTC).isoformat(timespec="seconds")

    return replace(one, created=text(now), evidence_since=text(since), valid_until=text(since + VALID))
