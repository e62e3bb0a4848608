"""The words of a certificate that its page, its Markdown and the terminal share."""

from __future__ import annotations

from collections.abc import Iterator

from chaoskit.studies.certificate.certificate import Answer, Certificate
from chaoskit.studies.certificate.row import STATES, RowState, State

#: For each state the style of a verdict.
STYLES: dict[State, str] = {
    "proven": "pass", "failed": "fail", "accepted": "accepted", "not-tested": "inconclusive",
    "not-applicable": "skipped",
}  # fmt: skip
ANSWER_STYLES: dict[Answer, str] = {"ready": "pass", "not-ready": "fail", "not-proven": "inconclusive"}
#: How figures are called, and their units: seconds, steps, or a share.
FIGURES = {
    "steps_lost": ("steps lost at most (RPO)", "steps"),
    "recovery_seconds": ("recovered within (RTO)", "s"),
    "noticed_seconds": ("noticed within", "s"),
    "stopped_seconds": ("all ranks stopped within", "s"),
    "saved_seconds": ("saved within", "s"),
    "silent_share": ("silent", "%"),
    "silent_low": ("at least", "%"),
    "silent_high": ("at most", "%"),
    "interval_seconds": ("interval", "s"),
    "optimal_seconds": ("optimum", "s"),
    "save_seconds": ("a save takes", "s"),
}
#: Figures that the sentence of their row says already.
_SAID = ("silent_share", "silent_low", "silent_high", "interval_seconds", "optimal_seconds", "save_seconds")


def headline(one: Certificate) -> str:
    """'ready: 27 rows proven, 1 accepted, 2 do not apply'."""
    return f"{one.word}: {counts(one)}"


def counts(one: Certificate) -> str:
    """How many rows are in each state that occurs."""
    found = [(one.count(state), word) for state, word in STATES.items()]
    words = [f"{count} {'do not apply' if word == 'does not apply' and count > 1 else word}" for count, word in found
             if count]  # fmt: skip
    return f"of {len(one.rows)} rows {', '.join(words)}"


def figures(row: RowState) -> str:
    """The measured values of a row that its sentence does not say; empty if there are none."""
    return ", ".join(
        f"{name} {_value(row.figures[key], unit)}" for key, (name, unit) in FIGURES.items()
        if key in row.figures and key not in _SAID
    )  # fmt: skip


def _value(value: float, unit: str) -> str:
    return f"{value:.1%}" if unit == "%" else f"{value:.0f} {unit}" if unit == "steps" else f"{value:.1f} {unit}"


def facts(one: Certificate) -> Iterator[tuple[str, str]]:
    """What the certificate is of: names and values."""
    yield "job", one.job
    yield "made", _when(one.created)
    yield "evidence since", _when(one.evidence_since)
    yield "valid", f"until {_when(one.valid_until)}, or until sources, versions or launcher change"
    yield "suite" if len(one.suites) == 1 else "suites", ", ".join(one.suites)
    yield "ran in", "; ".join(one.environments) or "unknown"
    basis = one.basis
    counted = f"{_many(len(basis.files), 'file')}, {_many(len(basis.packages), 'package')}"
    yield "sources", f"{basis.digest[:16]} ({counted})"
    names = ("chaoskit", "python", "torch", "cuda", "nccl")
    yield "versions", ", ".join(f"{name} {basis.versions[name]}" for name in names if basis.versions.get(name))
    if basis.launcher:
        yield "launcher", basis.launcher[1] if len(basis.launcher) > 1 else basis.launcher[0]
    machine = basis.machine
    yield "machine", ", ".join(machine[name] for name in ("host", "processor", "platform") if machine.get(name))
    yield "evidence", f"{one.evidence_digest[:16]} (over {_many(len(one.evidence), 'stored run')})"


def _when(moment: str) -> str:
    """'2026-11-26 10:00 UTC'."""
    return f"{moment[:10]} {moment[11:16]} UTC"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
