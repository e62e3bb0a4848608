"""The summary: a table of the experiments in GitHub-flavoured Markdown, for the job page of a CI system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from chaoskit.engine.result import ACCEPTED, SKIPPED, WORDS, Result
from chaoskit.report.html.page import number, seconds
from chaoskit.report.html.suite_page import counts, headline, in_order
from chaoskit.report.terminal.table import printable, total
from chaoskit.studies.nights.suite import Suite

SYMBOLS = {"pass": "✓", ACCEPTED: "≈", "fail": "✗", "inconclusive": "?", SKIPPED: "–"}
HEAD = "| verdict | experiment | findings | steps lost | recovery | time |\n|---|---|---|--:|--:|--:|\n"
#: GitHub drops a summary above 1 MiB; all steps that write to the file share this limit.
LIMIT = 1_000_000
#: Characters with a meaning in Markdown, HTML or on GitHub; an underscore has one only at the border of a word.
_SPECIAL = re.compile(r"[&<>|`*~\[\\$@#]|\b_|_\b")


def markdown(suite: Suite, *, limit: int = LIMIT) -> str:
    """Return the summary: failures first, with codes and full sentences; passed experiments are folded. Above `limit`
    bytes the last rows are omitted, and a row says how many."""
    ordered = in_order(suite.results)
    bad = [result for result in ordered if result.verdict in ("fail", "inconclusive")]
    rest = [result for result in ordered if result not in bad]
    text = f"### chaoskit: {_plain(headline(suite))}\n\n{_plain(total(suite.results, seconds=suite.seconds))}\n\n"
    text += _table(bad, limit - _bytes(text))
    if rest:
        folded = ", ".join(f"{count} {WORDS[verdict]}" for verdict, count in counts(rest).items())
        table = _table(rest, limit - _bytes(text))
        text += f"<details><summary>{folded}</summary>\n\n{table}</details>\n\n"
    return text


def append(suite: Suite, path: Path) -> None:
    """Append the summary to a file that other steps may write to. Raises OSError."""
    taken = path.stat().st_size if path.exists() else 0
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(markdown(suite, limit=LIMIT - taken))


def _table(results: Sequence[Result], room: int) -> str:
    if not results:
        return ""
    rows: list[str] = []
    for index, row in enumerate(map(_row, results)):
        room -= _bytes(row)
        if room < 2000:
            left = len(results) - index
            rows.append(f"| | | {left} more omitted, because the summary would be too long | | | |\n")
            break
        rows.append(row)
    return HEAD + "".join(rows) + "\n"


def _row(result: Result) -> str:
    codes = " ".join(f"<code>{_plain(code)}</code>" for code in (*result.codes, *result.accepted))
    findings = "<br>".join(filter(None, [codes, *map(_plain, result.sentences)]))
    verdict = f"{SYMBOLS[result.verdict]} {result.verdict}"
    figures = (number(result.steps_lost), seconds(result.recovery_seconds), seconds(result.seconds))
    return f"| {' | '.join([verdict, _plain(result.name), findings, *figures])} |\n"


def _plain(text: str) -> str:
    """Escape Markdown and HTML, and put the text in one line."""
    escaped = _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", printable(text.replace("\r\n", "\n")))
    return "<br>".join(line.strip() for line in escaped.split("\n")).strip()


def _bytes(text: str) -> int:
    return len(text.encode(errors="backslashreplace"))
