"""`verify`: whether a certificate still holds, here and now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaoskit.engine.run_store import Store
from chaoskit.errors import ExitCode, UsageError
from chaoskit.protocol.stored_files import read_value, why_unread
from chaoskit.studies.certificate import sources
from chaoskit.studies.certificate.certificate import Certificate, digest_of
from chaoskit.studies.certificate.reading import digest_of as run_digest
from chaoskit.studies.certificate.reading import file_digest
from chaoskit.studies.certificate.stored_studies import CRASH_STATES, SDC_MAP


@dataclass(frozen=True)
class Verification:
    """What is left of a certificate. `broken` says what no longer holds, one sentence each."""

    certificate: Certificate
    broken: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """That of the certificate while it holds; 3 once it does not, unless a row of it has failed anyway."""
        own = self.certificate.exit_code
        return ExitCode.INCONCLUSIVE if self.broken and own is not ExitCode.FAIL else own


def load(path: Path) -> Certificate:
    """Read a certificate. Raises UsageError for what is none, is damaged, or was edited."""
    try:
        data = read_value(path)
    except FileNotFoundError as error:
        raise UsageError(f"--verify: there is no file {str(path)!r}") from error
    except OSError as error:
        raise UsageError(f"--verify: {path} {why_unread(error)}: name the JSON of a certificate") from error
    except ValueError as error:
        raise UsageError(
            f"--verify: {path} is no JSON: name the certificate.json, not one of its pages"
        ) from error
    if not isinstance(data, dict):
        raise UsageError(f"--verify: {path} is no certificate of chaoskit")
    try:
        made = Certificate.from_json(data)
    except ValueError as error:
        raise UsageError(f"--verify: {path} is no certificate of chaoskit, or damaged ({error})") from error
    if why := _edited(data, made):
        raise UsageError(f"--verify: {path} was edited after it was made ({why}): it proves nothing")
    return made


def verify(one: Certificate, store: Store, *, now: datetime | None = None) -> Verification:
    """Compare a certificate with its evidence in the store, the sources, the versions, the machine and the date."""
    return Verification(one, tuple(_broken(one, store, now or datetime.now(UTC))))


def _edited(data: Mapping[str, Any], made: Certificate) -> str:
    again = made.to_json()
    if data.get("digest") != digest_of(data):
        return "its digest is that of another content"
    if data.get("answer") != again["answer"]:
        return f"it says {data.get('answer')}, and its rows come to {again['answer']}"
    if (
        data.get("evidence_digest") != again["evidence_digest"]
        or data.get("sources_digest") != again["sources_digest"]
    ):
        return "its digests are those of other evidence"
    return ""


def _broken(one: Certificate, store: Store, now: datetime) -> Iterator[str]:
    if (until := _moment(one.valid_until)) is None or now > until:
        yield f"it was valid until {one.valid_until}"
    if (since := _moment(one.evidence_since)) is not None and since > now:
        yield f"its evidence is of {one.evidence_since}, which is yet to come: the clock here is wrong"
    gone, altered = [], []
    for name, digest in one.evidence.items():
        run_dir = store.runs / name
        if run_dir.name != name or not (run_dir / "run.json").is_file():
            gone.append(name)
        elif digest not in _digests(run_dir):
            altered.append(name)
    for names, what in ((gone, "no longer stored"), (altered, "not what it was")):
        if names:
            of = f"{len(names)} of {len(one.evidence)} stored runs {'is' if len(names) == 1 else 'are'}"
            yield f"{of} {what} in {store.runs} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
    yield from sources.differences(one.basis)


def _digests(run_dir: Path) -> set[str]:
    found = set()
    for read, path in (
        (run_digest, run_dir),
        (file_digest, run_dir / SDC_MAP),
        (file_digest, run_dir / CRASH_STATES),
    ):
        try:
            found.add(read(path))
        except OSError:
            continue
    return found


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
