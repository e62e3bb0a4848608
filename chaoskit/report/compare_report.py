"""Two suites beside each other, for people: what is worse, where the references part, and what is noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaoskit.errors import ExitCode
from chaoskit.report.terminal import STYLES
from chaoskit.results import Result
from chaoskit.suites.contrast import Change, Contrast, counted
from chaoskit.suites.drift import Apart, Drift
from chaoskit.suites.noise import fewest
from chaoskit.suites.pacing import ALPHA, MARGIN, TESTED, Ratio
from chaoskit.suites.suite import Suite
from chaoskit.suites.ulps import Gap

DIRECTIONS = {"worse": "bold red", "better": "green", "unknown": "bold yellow"}
COURSES = {
    "grows": "; the gaps grow from there on",
    "shrinks": "; the gaps shrink from there on",
    "stays": "; the gaps stay as large as they are",
    "": "",
}
#: What the test says of a kind of time.
JUDGED = {
    "slower": "slower",
    "faster": "faster",
    "noise": "noise",
    "too few": "cannot tell",
    "pace": "not tested",
}
#: So many experiments are named, and so many components with their values.
NAMED, SHOWN = 3, 3


def show(one: Contrast, console: Console, *, times: bool = False) -> None:
    """The two suites, what changed, where the references part, what they ran with, the times, the answer."""
    for word, suite in (("old", one.old), ("new", one.new)):
        console.print(Text(f"{word}  {about(suite)}"), soft_wrap=True)
    for change in sorted(one.changes, key=lambda change: list(DIRECTIONS).index(change.direction)):
        console.print()
        _tell(change, console)
    for word, names in (("old", one.gone), ("new", one.added)):
        if names:
            console.print()
            console.print(Text(f"only in the {word} suite: {', '.join(names)}"), soft_wrap=True)
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
    return f"{suite.id}{when}{host}: {counted(len(suite.results), 'experiment')}, {suite.outcome.value}{ended}"


def verdict(result: Result) -> str:
    """'fail (rng-not-restored)'."""
    return result.verdict + (f" ({', '.join(result.codes)})" if result.codes else "")


def _tell(change: Change, console: Console) -> None:
    head = Text(change.direction.upper(), style=DIRECTIONS[change.direction])
    head.append(f" {change.name}: {verdict(change.old)} → {verdict(change.new)}", style="bold")
    console.print(head, soft_wrap=True)
    for sentence in change.new.sentences:
        for line in sentence.splitlines():
            console.print(Text(f"  {line}"), soft_wrap=True)


def references(one: Contrast) -> Iterator[str]:
    """A line for each pair of references, and what is known of those that part below it."""
    for drift in one.drifts:
        yield headline(drift)
        yield from (f"  {line}" for line in details(drift))
    if one.unkept:
        yield f"no reference is kept of {named(one.unkept)}"
    if not one.drifts and not one.unkept:
        yield "no experiment was held to a reference"


def headline(drift: Drift) -> str:
    """'the references of 10 experiments (test_a, ...) part at step 3, rank 0, in model and loss'."""
    whose = f"the references of {named(drift.experiments)}"
    if drift.void:
        return f"{whose} are no evidence: {drift.void}"
    if not drift.apart:
        return f"{whose} are equal to the bit: {size(drift)}{_remark(drift)}"
    names = list(drift.values)
    if names == ["steps"]:
        told = f"{whose} are equal as long as both go on: the old one has {drift.old.steps} steps, the new one"
        return f"{told} {drift.new.steps}{_remark(drift)}"
    what = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"{whose} part at step {drift.step}, rank {drift.rank}, in {what}{_remark(drift)}"


def details(drift: Drift) -> Iterator[str]:
    """Of references that part: the components, the first loss that differs, the largest gap."""
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
            yield "the losses are equal to the bit in all steps of both"
        return
    yield f"first loss that differs: {place(drift.first)}: {gap(drift.first.gap)}"
    if drift.largest is not None and drift.largest != drift.first:
        yield f"largest gap: {place(drift.largest)}: {gap(drift.largest.gap)}{COURSES[drift.course]}"


def place(one: Apart) -> str:
    """'step 3, rank 1, backward 2'; the first backward goes without saying."""
    return f"step {one.step}, rank {one.rank}" + (f", backward {one.backward}" if one.backward > 1 else "")


def gap(one: Gap) -> str:
    """'1.73134 → 1.73142, 671 ulps of float32, 4.62e-05 relatively'."""
    digits = 9 if one.precision == "float32" else 17
    both = f"{one.old:.{digits}g} → {one.new:.{digits}g}"
    if one.ulps is None:
        return f"{both}, one of which is no finite number"
    return f"{both}, {counted(one.ulps, 'ulp')} of {one.precision}, {one.relative:.3g} relatively"


def size(drift: Drift) -> str:
    """'60 steps, 2 ranks'."""
    return f"{counted(min(drift.old.steps, drift.new.steps), 'step')}, {counted(drift.new.world_size, 'rank')}"


def named(names: Sequence[str]) -> str:
    """'test_a', or '10 experiments (test_a, test_b, test_c, ...)'."""
    plain = [name.rpartition("::")[2] for name in names]
    if len(plain) == 1:
        return plain[0]
    return f"{len(plain)} experiments ({', '.join(plain[:NAMED])}{', ...' if len(plain) > NAMED else ''})"


def settings_table(one: Contrast) -> Table:
    """Versions, flags, machine and words that differ."""
    table = _table("differs", "of", "old", "new")
    for each in one.settings:
        table.add_row(*(Text(text) for text in (each.name, each.source, each.old or "–", each.new or "–")))
    return table


def times_table(one: Contrast) -> Table:
    """One row a kind of time: the medians, the ratio with its interval, the same by the pace, what it means."""
    table = _table("time of a", "n", "old", "new", "new / old", "by the pace", "")
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


def explained(one: Contrast) -> list[str]:
    """What the table of times means."""
    rows = [each for each in one.times if each.pairs]
    lower = [
        f"{each.what} {100 * each.ratio.level:.0f} %"
        for each in rows
        if each.ratio is not None and 0 < each.ratio.level < 1 - ALPHA
    ]
    levels = f" ({', '.join(lower)})" if lower else ""
    told = [f"intervals of 99 %{levels}; by the pace: divided by that of the steps"]
    if any(each.judged == "noise" for each in rows):
        told.append("noise: no difference that could be told from it, which is no proof that there is none")
    if any(each.judged == "too few" for each in rows):
        needed = fewest(alpha=ALPHA, tests=len(TESTED))
        told.append(f"cannot tell: not enough experiments, {needed} with the same verdict in both are needed")
    told += [
        f"{each.what} is {each.judged}, as measured and by the pace, by more than {MARGIN:.0%} (p {each.chance:.2g})"
        for each in rows
        if each.judged in ("slower", "faster")
    ]
    return told


def answer(one: Contrast, *, times: bool = False) -> str:
    """What was compared, what came of it, and what it can tell: one sentence."""
    code = one.exit_code(times=times)
    compared = f"{counted(len(one.pairs), 'experiment')} compared"
    found = [f"{len(those)} became {way}" for way in ("worse", "better") if (those := one.changed(way))]
    equal = [drift for drift in one.drifts if not drift.apart and not drift.void]
    if one.parted:
        found.append(
            f"{counted(len(one.parted), 'pair')} of references {'part' if len(one.parted) > 1 else 'parts'}"
        )
    elif equal and len(equal) == len(one.drifts):
        found.append("their references are equal to the bit")
    if not one.changed("worse") and not one.changed("better"):
        found.insert(0, "no verdict became worse" if one.changes else "no verdict differs")
    found += [
        f"{count} {name} in both" for name in ("fail", "inconclusive", "skipped") if (count := one.both(name))
    ]
    head = {ExitCode.FAIL: "WORSE", ExitCode.PASS: "NOTHING IS WORSE"}.get(code, "CANNOT TELL ALL")
    gaps = f"; not all could be compared: {', '.join(one.gaps)}" if one.gaps else ""
    return f"{head}: {compared}: {', '.join(found)}{gaps}; {_times(one, failing=times)}"


def _times(one: Contrast, *, failing: bool) -> str:
    told = {way: [f"{each.what}" for each in one.times if each.judged == way] for way in ("slower", "faster")}
    said = [
        f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} {way}" for way, names in told.items() if names
    ]
    if said:
        remark = "" if failing or not told["slower"] else " (a failure only with --times)"
        return f"{', '.join(said)}{remark}"
    if any(each.judged == "noise" for each in one.times):
        return "the times differ by no more than noise"
    return "not enough experiments to tell about times"


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
