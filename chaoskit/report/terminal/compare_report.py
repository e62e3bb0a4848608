"""The report of `chaoskit compare` in the terminal: changed verdicts, diverging references, settings and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit.analysis.stats.signed_rank import fewest
from chaoskit.analysis.stats.ulps import UlpDistance
from chaoskit.engine.result import Result
from chaoskit.engine.terminal_text import one_line, printable
from chaoskit.errors import ExitCode
from chaoskit.report.terminal.table import STYLES
from chaoskit.studies.nights.comparison import SuiteComparison, VerdictChange, counted
from chaoskit.studies.nights.drift import Drift, LossDistance
from chaoskit.studies.nights.pacing import ALPHA, MARGIN, TESTED, Ratio
from chaoskit.studies.nights.suite import Suite

DIRECTIONS = {"worse": "bold red", "better": "green", "unknown": "bold yellow"}
COURSES = {
    "grows": "; the difference grows over the following steps",
    "shrinks": "; the difference shrinks over the following steps",
    "stays": "; the difference does not grow over the following steps",
    "": "",
}
#: The results of the test of a kind of time, in words.
JUDGED = {
    "slower": "slower",
    "faster": "faster",
    "noise": "noise",
    "too few": "too few",
    "pace": "not tested",
}
#: Maximum number of experiments named, and of components shown with their values.
NAMED, SHOWN = 3, 3


def show(one: SuiteComparison, console: Console, *, times: bool = False) -> None:
    """Print the two suites, the changes, the references, the settings, the times and the answer."""
    for word, suite in (("old", one.old), ("new", one.new)):
        console.print(Text(f"{word}  {about(suite)}"), soft_wrap=True)
    for change in sorted(one.changes, key=lambda change: list(DIRECTIONS).index(change.direction)):
        console.print()
        _show_change(change, console)
    for word, names in (("old", one.gone), ("new", one.added)):
        if names:
            console.print()
            console.print(Text(f"only in the {word} suite: {', '.join(map(one_line, names))}"), soft_wrap=True)
    console.print()
    for line in references(one):
        console.print(Text(line), soft_wrap=True)
    if one.settings:
        console.print()
        console.print(settings_table(one))
    if any(each.pairs for each in one.times):
        console.print()
        console.print(times_table(one))
        for line in explained(one):
            console.print(Text(line, style="dim"), soft_wrap=True)
    console.print()
    console.print(Text(answer(one, times=times), style="bold"), soft_wrap=True)


def about(suite: Suite) -> str:
    """'20261122-103552-1938e63, 2026-11-22 10:35 UTC on vm: 11 experiments, fail'."""
    when = f", {suite.when}" if suite.when else ""
    host = f" on {suite.machine['host']}" if suite.machine.get("host") else ""
    ended = "" if suite.status == "finished" else f", {suite.status}"
    came = f"{counted(len(suite.results), 'experiment')}, {suite.outcome.value}"
    return one_line(f"{suite.id}{when}{host}: {came}{ended}")


def verdict(result: Result) -> str:
    """'fail (rng-not-restored)'."""
    return result.verdict + (f" ({one_line(', '.join(result.codes))})" if result.codes else "")


def _show_change(change: VerdictChange, console: Console) -> None:
    head = Text(change.direction.upper(), style=DIRECTIONS[change.direction])
    head.append(f" {one_line(change.name)}: {verdict(change.old)} → {verdict(change.new)}", style="bold")
    console.print(head, soft_wrap=True)
    for sentence in change.new.sentences:
        for line in printable(sentence).splitlines():
            console.print(Text(f"  {line}"), soft_wrap=True)


def references(one: SuiteComparison) -> Iterator[str]:
    """Yield a line for each pair of references, followed by the details of a divergence."""
    for drift in one.drifts:
        yield headline(drift)
        yield from (f"  {line}" for line in details(drift))
    if one.unkept:
        yield f"no stored reference for {named(one.unkept)}"
    if not one.drifts and not one.unkept:
        yield "no experiment has a reference"


def headline(drift: Drift) -> str:
    """'the references of 10 experiments (test_a, ...) diverge at step 3, rank 0, in model and loss'."""
    whose = f"the references of {named(drift.experiments)}"
    if drift.void:
        return f"{whose} cannot be compared: {drift.void}"
    if not drift.apart:
        return f"{whose} are bitwise equal: {size(drift)}{_remark(drift)}"
    names = list(drift.values)
    if names == ["steps"]:
        lengths = f"old {drift.old.steps} steps, new {drift.new.steps}"
        return f"{whose} are equal up to the end of the shorter one ({lengths}){_remark(drift)}"
    what = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"{whose} diverge at step {drift.step}, rank {drift.rank}, in {what}{_remark(drift)}"


def details(drift: Drift) -> Iterator[str]:
    """Yield the details of a divergence: the components, the first loss that differs, the largest difference."""
    if not drift.apart:
        return
    parts = [
        f"{name} {_short(a)} → {_short(b)}"
        for name, (a, b) in drift.values.items()
        if name not in ("loss", "steps")
    ]
    if parts:
        more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
        yield f"fingerprints: {', '.join(parts[:SHOWN])}{more}"
    if drift.first is None:
        if "loss" not in drift.values:
            yield "the losses are bitwise equal in all steps that both have"
        return
    yield f"first loss that differs: {location(drift.first)}: {gap(drift.first.gap)}"
    if drift.largest is not None and drift.largest != drift.first:
        yield f"largest difference: {location(drift.largest)}: {gap(drift.largest.gap)}{COURSES[drift.course]}"


def location(one: LossDistance) -> str:
    """'step 3, rank 1, backward 2'; the first backward is not named."""
    return f"step {one.step}, rank {one.rank}" + (f", backward {one.backward}" if one.backward > 1 else "")


def gap(one: UlpDistance) -> str:
    """'1.73134 → 1.73142, 671 ulps of float32, relative 4.62e-05'."""
    digits = 9 if one.precision == "float32" else 17
    both = f"{one.old:.{digits}g} → {one.new:.{digits}g}"
    if one.ulps is None:
        return f"{both}, one of them not finite"
    return f"{both}, {counted(one.ulps, 'ulp')} of {one.precision}, relative {one.relative:.3g}"


def size(drift: Drift) -> str:
    """'60 steps, 2 ranks'."""
    return f"{counted(min(drift.old.steps, drift.new.steps), 'step')}, {counted(drift.new.world_size, 'rank')}"


def named(names: Sequence[str]) -> str:
    """'test_a', or '10 experiments (test_a, test_b, test_c, ...)'."""
    plain = [one_line(name.rpartition("::")[2]) for name in names]
    if len(plain) == 1:
        return plain[0]
    return f"{len(plain)} experiments ({', '.join(plain[:NAMED])}{', ...' if len(plain) > NAMED else ''})"


def settings_table(one: SuiteComparison) -> Table:
    """Make the table of versions, flags, machines and commands that differ."""
    table = _table("setting", "source", "old", "new")
    for each in one.settings:
        table.add_row(
            *(Text(one_line(text)) for text in (each.name, each.source, each.old or "–", each.new or "–"))
        )
    return table


def times_table(one: SuiteComparison) -> Table:
    """Make the table of times: medians, ratio with interval, ratio divided by that of the step times, result."""
    table = _table("time", "n", "old", "new", "new / old", "pace-adjusted", "")
    for column in table.columns[1:6]:
        column.justify, column.no_wrap = "right", True
    for each in (each for each in one.times if each.pairs):
        style = {"slower": STYLES["fail"], "faster": STYLES["pass"]}.get(each.judged, "")
        table.add_row(
            each.what, str(each.pairs), duration(each.old), duration(each.new), ratio(each.ratio), ratio(each.paced),
            Text(JUDGED[each.judged], style=style),
        )  # fmt: skip
    return table


def ratio(one: Ratio | None) -> str:
    """'1.08 (0.97-1.21)'; one pair has no interval."""
    if one is None:
        return "–"
    return f"{one.value:.2f}" + (f" ({one.low:.2f}-{one.high:.2f})" if one.level > 0 else "")


def explained(one: SuiteComparison) -> list[str]:
    """Explain the table of times."""
    rows = [each for each in one.times if each.pairs]
    lower = [
        f"{each.what} {100 * each.ratio.level:.0f} %"
        for each in rows
        if each.ratio is not None and 0 < each.ratio.level < 1 - ALPHA
    ]
    levels = f" ({', '.join(lower)})" if lower else ""
    lines = [f"99 % intervals{levels}; pace-adjusted: divided by the ratio of the step times"]
    if any(each.judged == "noise" for each in rows):
        lines.append("noise: no difference was detected, which does not prove that there is none")
    if any(each.judged == "too few" for each in rows):
        needed = fewest(alpha=ALPHA, tests=len(TESTED))
        lines.append(f"too few: the test needs {needed} experiments with the same verdict in both suites")
    lines += [
        f"{each.what} is {each.judged} by more than {MARGIN:.0%}, both measured and pace-adjusted (p {each.chance:.2g})"
        for each in rows
        if each.judged in ("slower", "faster")
    ]
    return lines


def answer(one: SuiteComparison, *, times: bool = False) -> str:
    """Summarize the comparison in one sentence."""
    code = one.exit_code(times=times)
    compared = f"{counted(len(one.pairs), 'experiment')} compared"
    found = [f"{len(those)} became {way}" for way in ("worse", "better") if (those := one.changed(way))]
    equal = [drift for drift in one.drifts if not drift.apart and not drift.void]
    if one.parted:
        text = (
            f"{counted(len(one.parted), 'pair')} of references {'diverge' if len(one.parted) > 1 else 'diverges'}"
        )
        found.append(f"{text}, as {_rewritten(one.rewritten)}" if one.rewritten else text)
    elif equal and len(equal) == len(one.drifts):
        found.append("their references are bitwise equal")
    if not one.changed("worse") and not one.changed("better"):
        found.insert(0, "no verdict became worse" if one.changes else "no verdict differs")
    found += [
        f"{count} {name} in both" for name in ("fail", "inconclusive", "skipped") if (count := one.both(name))
    ]
    head = {ExitCode.FAIL: "WORSE", ExitCode.PASS: "NOTHING IS WORSE"}.get(code, "INCONCLUSIVE")
    if code is ExitCode.PASS and one.better:
        head = "BETTER"
    if not one.gaps and (undecided := one.changed("unknown")):
        found.append(f"{len(undecided)} that failed before {'is' if len(undecided) == 1 else 'are'} undecided")
    gaps = f"; the comparison is incomplete: {', '.join(one.gaps)}" if one.gaps else ""
    return f"{head}: {compared}: {', '.join(found)}{gaps}; {_times(one, failing=times)}"


def _rewritten(files: Sequence[str]) -> str:
    """'train.py was changed'."""
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    return f"{one_line(', '.join(files[:NAMED]))}{more} {'was' if len(files) == 1 else 'were'} changed"


def _times(one: SuiteComparison, *, failing: bool) -> str:
    found = {way: [f"{each.what}" for each in one.times if each.judged == way] for way in ("slower", "faster")}
    texts = [
        f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} {way}"
        for way, names in found.items()
        if names
    ]
    if texts:
        remark = "" if failing or not found["slower"] else " (a failure only with --times)"
        return f"{', '.join(texts)}{remark}"
    if any(each.judged == "noise" for each in one.times):
        return "the times differ by no more than noise"
    return "too few experiments to compare times"


def _remark(drift: Drift) -> str:
    return f" ({drift.remark})" if drift.remark else ""


def _short(text: str) -> str:
    return f"{text[:8]}…" if len(text) > 12 else text


def duration(value: float | None) -> str:
    return "–" if value is None else f"{1000 * value:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def _table(*names: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table
