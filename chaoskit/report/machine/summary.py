"""The summary in GitHub-flavoured Markdown, for the page of a CI system: the problems, and the experiments, folded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from chaoskit.analysis.record.steps import readable
from chaoskit.engine.result import ACCEPTED, SKIPPED, Result
from chaoskit.engine.terminal_text import printable
from chaoskit.report import problem_words
from chaoskit.report.html.page import number, seconds
from chaoskit.report.html.suite_page import in_order
from chaoskit.report.terminal.table import total
from chaoskit.studies.nights.suite import Suite
from chaoskit.studies.problems.problem import Problem
from chaoskit.studies.problems.suite_problems import undecided

SYMBOLS = {"pass": "✓", ACCEPTED: "≈", "fail": "✗", "inconclusive": "?", SKIPPED: "–"}
HEAD = "| verdict | experiment | findings | steps lost | recovery | time |\n|---|---|---|--:|--:|--:|\n"
#: GitHub drops a summary above 1 MiB; all steps that write to the file share this limit.
LIMIT = 1_000_000
#: Characters with a meaning in Markdown, HTML or on GitHub; an underscore has one only at the border of a word.
_SPECIAL = re.compile(r"[&<>|`*~\[\\$@#]|\b_|_\b")


def markdown(suite: Suite, *, limit: int = LIMIT) -> str:
    """Return the summary: the list of problems, what could not be judged, and all experiments, folded: first those that
    did not pass, with codes and full sentences. Above `limit` bytes the last rows are omitted, and a row says how
    many."""
    problems = suite.problems
    text = f"### chaoskit: {plain(problem_words.count_line(problems, suite.results))}\n\n"
    text += f"{plain(total(suite.results, seconds=suite.seconds))}\n\n"
    real = [problem for problem in problems if not problem.weakness]
    text += "".join(f"{number}. {_problem(one)}\n" for number, one in enumerate(real, start=1)) + "\n" * bool(real)
    if weak := problem_words.weakness_line(problems):
        text += f"**{plain(weak)}**\n\n"
    open_ = undecided(suite.results)
    text += "".join(f"- could not be judged: {_problem(one)}\n" for one in open_) + "\n" * bool(open_)
    ordered = in_order(suite.results)
    bad = [result for result in ordered if result.verdict in ("fail", "inconclusive")]
    rest = [result for result in ordered if result not in bad]
    for those in (bad, rest):
        if those:
            folded = problem_words.counted_results(those).partition(": ")[2]
            table = _table(those, limit - _bytes(text))
            text += f"<details><summary>{folded}</summary>\n\n{table}</details>\n\n"
    return text


def append(suite: Suite, path: Path) -> None:
    """Append the summary to a file that other steps may write to. Raises OSError."""
    taken = path.stat().st_size if path.exists() else 0
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(markdown(suite, limit=LIMIT - taken))


def _problem(one: Problem) -> str:
    """A problem as an item of a list: what happened, what to change, the command that repeats it."""
    code = f"<code>{plain(one.code)}</code> " if one.code else ""
    proof = problem_words.proof_line(one)
    parts = [f"{code}{plain(one.sentence)}", plain(f"{proof} {problem_words.shown_by(one)}".strip())]
    if one.advice:
        parts.append(f"Change: {plain(one.advice)}")
    if one.repeat:
        parts.append(f"Repeat: <code>{plain(one.repeat)}</code>")
    return "<br>".join(parts)


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
    codes = " ".join(f"<code>{plain(code)}</code>" for code in (*result.codes, *result.accepted))
    findings = "<br>".join(filter(None, [codes, *(plain(readable(text)) for text in result.sentences)]))
    verdict = f"{SYMBOLS[result.verdict]} {result.word}"
    figures = (number(result.steps_lost), seconds(result.recovery_seconds), seconds(result.seconds))
    return f"| {' | '.join([verdict, plain(result.name), findings, *figures])} |\n"


def plain(text: str) -> str:
    """Escape Markdown and HTML, and put the text in one line."""
    escaped = _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", printable(text.replace("\r\n", "\n")))
    return "<br>".join(line.strip() for line in escaped.split("\n")).strip()


def _bytes(text: str) -> int:
    return len(text.encode(errors="backslashreplace"))
