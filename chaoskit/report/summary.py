"""The summary: a table of the experiments in GitHub-flavoured Markdown, for the page that CI shows of a job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from chaoskit.report.page import number, seconds
from chaoskit.report.suite_page import counts, headline, in_order
from chaoskit.report.terminal import printable, total
from chaoskit.results import SKIPPED, WORDS, Result
from chaoskit.suites.suite import Suite

SYMBOLS = {"pass": "✓", "fail": "✗", "inconclusive": "?", SKIPPED: "–"}
HEAD = "| verdict | experiment | what was found | steps lost | recovery | time |\n|---|---|---|--:|--:|--:|\n"
#: GitHub shows nothing at all of a summary above 1 MiB, which all steps that write to one file share.
LIMIT = 1_000_000
#: Whatever Markdown, HTML or GitHub gives a meaning to; an underscore has one only at the border of a word.
_SPECIAL = re.compile(r"[&<>|`*~\[\\$@#]|\b_|_\b")


def markdown(suite: Suite, *, limit: int = LIMIT) -> str:
    """The failures first, each with its codes and its sentences in full; what passed is folded. Of more than `limit`
    bytes the last rows are left out, and it says how many."""
    ordered = in_order(suite.results)
    telling = [result for result in ordered if result.verdict in ("fail", "inconclusive")]
    rest = [result for result in ordered if result not in telling]
    text = f"### chaoskit: {_plain(headline(suite))}\n\n{_plain(total(suite.results, seconds=suite.seconds))}\n\n"
    text += _table(telling, limit - _bytes(text))
    if rest:
        folded = ", ".join(f"{count} {WORDS[verdict]}" for verdict, count in counts(rest).items())
        table = _table(rest, limit - _bytes(text))
        text += f"<details><summary>{folded}</summary>\n\n{table}</details>\n\n"
    return text


def append(suite: Suite, path: Path) -> None:
    """Add the summary to a file, which other steps write to as well. Raises OSError."""
    taken = path.stat().st_size if path.exists() else 0
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(markdown(suite, limit=LIMIT - taken))


def _table(results: Sequence[Result], room: int) -> str:
    if not results:
        return ""
    rows: list[str] = []
    for place, row in enumerate(map(_row, results)):
        room -= _bytes(row)
        if room < 2000:
            left = len(results) - place
            rows.append(f"| | | {left} more: the summary would be too long for them | | | |\n")
            break
        rows.append(row)
    return HEAD + "".join(rows) + "\n"


def _row(result: Result) -> str:
    codes = " ".join(f"<code>{_plain(code)}</code>" for code in result.codes)
    told = "<br>".join(filter(None, [codes, *map(_plain, result.sentences)]))
    verdict = f"{SYMBOLS[result.verdict]} {result.verdict}"
    figures = (number(result.steps_lost), seconds(result.recovery_seconds), seconds(result.seconds))
    return f"| {' | '.join([verdict, _plain(result.name), told, *figures])} |\n"


def _plain(text: str) -> str:
    """Text that means nothing but itself, in one line."""
    escaped = _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", printable(text.replace("\r\n", "\n")))
    return "<br>".join(line.strip() for line in escaped.split("\n")).strip()


def _bytes(text: str) -> int:
    return len(text.encode(errors="backslashreplace"))
