"""The history of many nights as metrics, in the text format of Prometheus.

A file of them serves the textfile collector of node_exporter, or any web server that Prometheus scrapes. All metrics
are gauges about the last night; Prometheus itself keeps what they were before. `docs/how-to/history.md` lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from chaoskit.engine.result import WORDS
from chaoskit.engine.terminal_text import printable
from chaoskit.errors import UsageError
from chaoskit.files.whole_files import replace_file
from chaoskit.report.machine.json_report import write_text
from chaoskit.studies.nights.findings import Findings
from chaoskit.studies.nights.suite_history import SuiteHistory, Track
from chaoskit.studies.nights.verdict_changes import Kind

OPTION = "--metrics"
#: The figures of `Findings`, the names of their metrics, and what they are.
FIGURES = (
    ("recovery", "recovery_seconds", "Time from the fault to the recovery"),
    ("lost", "lost_steps", "Steps lost"),
    ("launch", "launch_seconds", "Time from the start of the command to the first step"),
)
#: How an experiment can have turned.
KINDS: tuple[Kind, ...] = ("red", "undecided", "flaky", "green")


@dataclass(frozen=True)
class MetricSample:
    """One value, and the labels that tell it from the others of its metric."""

    value: float
    labels: Mapping[str, str]


def text(findings: Findings, *, damaged: int = 0) -> str:
    """Return the metrics; `damaged` suites could not be read."""
    history = findings.history
    metrics = (
        ("nights", "Suites in the history.", [MetricSample(len(history.nights), {})]),
        ("damaged_suites", "Suites that could not be read.", [MetricSample(damaged, {})]),
        ("last_night_timestamp_seconds", "Start of the last suite.", _started(history)),
        ("last_night_experiments", "Experiments of the last suite by verdict.", _counted(history)),
        ("experiment_verdict", "1 for the last verdict of an experiment.", _verdicts(history)),
        ("experiment_turned", "1 if the experiment became red, undecided, flaky or green.", _turned(findings)),
        *(
            (f"experiment_{name}", f"{about}: the last value, and the usual one.", _figures(findings, figure))
            for figure, name, about in FIGURES
        ),
        (
            "duration_shift_ratio",
            "Level of a time relative to its former level, where it changed.",
            _shifts(findings),
        ),
    )
    return "".join(_written(name, about, samples) for name, about, samples in metrics)


def write(findings: Findings, target: str, *, damaged: int = 0) -> None:
    """Write the metrics to the file `target`, or to standard output for `-`.

    The file is replaced as a whole: a scrape never reads half of it. Raises UsageError if it cannot be written.
    """
    content = text(findings, damaged=damaged)
    if target == "-":
        write_text(content, target, option=OPTION)
        return
    path = Path(target).absolute()
    try:
        # Others may read it: the collector has a user of its own. It ignores the draft, whose name does not end in
        # .prom.
        replace_file(path, content.encode(), mode=0o644)
    except OSError as error:
        raise UsageError(f"{OPTION}: cannot write {target!r} ({error.strerror}): name a writable file") from error


def _started(history: SuiteHistory) -> Iterator[MetricSample]:
    try:
        yield MetricSample(datetime.fromisoformat(history.nights[-1].created).timestamp(), {})
    except ValueError:
        return  # a suite without a date


def _counted(history: SuiteHistory) -> Iterator[MetricSample]:
    last = [track.results[-1] for track in history.tracks]
    for verdict in WORDS:
        count = sum(result is not None and result.verdict == verdict for result in last)
        yield MetricSample(count, {"verdict": verdict})


def _verdicts(history: SuiteHistory) -> Iterator[MetricSample]:
    for track in history.tracks:
        if track.last is not None:
            for verdict in WORDS:
                yield MetricSample(track.last.verdict == verdict, {**_named(track), "verdict": verdict})


def _turned(findings: Findings) -> Iterator[MetricSample]:
    for kind in KINDS:
        for turn in findings.turned(kind):
            yield MetricSample(1, {**_named(turn.track), "kind": kind})


def _figures(findings: Findings, name: str) -> Iterator[MetricSample]:
    for track in findings.history.tracks:
        figure = findings.figure(track, name)
        for which, value in (("last", figure.last), ("usual", figure.usual)):
            if value is not None:
                yield MetricSample(value, {**_named(track), "which": which})


def _shifts(findings: Findings) -> Iterator[MetricSample]:
    for shift in findings.trends.latest:
        series = shift.series
        named = {"training_job": series.job, "experiment": series.name}
        yield MetricSample(shift.ratio, {**named, "measure": series.measure, "machine": series.machine})


def _named(track: Track) -> dict[str, str]:
    # Not `job`: Prometheus gives every series that it scrapes a label of that name.
    return {"training_job": track.job, "experiment": track.name}


def _written(name: str, about: str, samples: Iterable[MetricSample]) -> str:
    name = f"chaoskit_{name}"
    lines = [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
    lines += [f"{name}{_labels(sample.labels)} {float(sample.value):.12g}" for sample in samples]
    return "\n".join([*lines, ""])


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(value: str) -> str:
    return printable(value.replace("\\", r"\\")).replace('"', r"\"").replace("\n", r"\n")
