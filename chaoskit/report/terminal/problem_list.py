"""The end of `chaoskit run` and of a pytest session: the problems of the job, each once, then its weaknesses, then what
could not be judged."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from chaoskit.analysis.record.steps import readable
from chaoskit.engine.code_sentences import capital
from chaoskit.engine.result import ACCEPTED, ERROR, SKIPPED, Result
from chaoskit.engine.terminal_text import printable
from chaoskit.report import problem_words
from chaoskit.report.terminal.table import STYLES, accepted_lines, took
from chaoskit.studies.problems.problem import Problem

#: Text is set under the code of its problem, and no wider than this.
INDENT, WIDEST = 3, 100


def show(
    problems: Sequence[Problem],
    open_: Sequence[Problem],
    results: Sequence[Result],
    console: Console,
    *,
    seconds: float | None = None,
    look: str | None = None,
    verbose: bool = False,
) -> None:
    """Print the list. `open_` is what could not be judged, `look` says where the details are. `verbose` gives the whole
    advice, and an entry to each weakness; without problems the weaknesses have theirs anyway."""
    width = min(console.width, WIDEST)
    for line in _wrapped(problem_words.count_line(problems, results), width):
        _say(console, line, "bold")
    real = [problem for problem in problems if not problem.weakness]
    proving: set[str] = set()
    for number, problem in enumerate(real, start=1):
        _entry(console, f"{number:<{INDENT}}", problem, STYLES["fail"], width, verbose=verbose)
        # One command puts back all that a run lost.
        if problem.to_prove and problem.to_prove not in proving:
            proving.add(problem.to_prove)
            _say(console, f"{'':{INDENT}}Prove: {problem.to_prove}", "")
    _weaknesses(
        [problem for problem in problems if problem.weakness], console, width, whole=verbose, alone=not real
    )
    for told in accepted_lines(results):
        for line in _wrapped(told, width, INDENT):
            _say(console, line, STYLES[ACCEPTED])
    for problem in open_:
        count = problem_words.counted(len(problem.shown_by), "experiment")
        error = any(result.word == ERROR for result in results if result.name in problem.shown_by)
        _say(console, f"{count} {'ended with an error' if error else 'could not be judged'}", "bold")
        _entry(console, " " * INDENT, problem, STYLES["inconclusive"], width, verbose=True)
    if all(result.verdict == SKIPPED for result in results):
        for sentence in dict.fromkeys(sentence for result in results for sentence in result.sentences):
            for line in _wrapped(" " * INDENT + capital(sentence), width, INDENT):
                _say(console, line, "")
    _say(console, took(results, seconds=seconds), "")
    if look and any(result.verdict not in ("pass", "skipped") for result in results):
        _say(console, look, "")


def _weaknesses(weak: Sequence[Problem], console: Console, width: int, *, whole: bool, alone: bool) -> None:
    """All of them in one line, or an entry for each."""
    listed = whole or alone
    line = (
        problem_words.counted(len(weak), "weakness") if listed else problem_words.weakness_line(weak, named=False)
    )
    for part in _wrapped(line if listed else f"{line} (-v: what to change)", width, INDENT) if weak else ():
        _say(console, part, "bold")
    for problem in weak if listed else ():
        _entry(console, f"{'-':<{INDENT}}", problem, STYLES["fail"], width, verbose=whole)


def _entry(console: Console, mark: str, problem: Problem, style: str, width: int, *, verbose: bool) -> None:
    """One problem: what happened, the proof, which experiments show it, what to change, the command."""
    head = Text(mark, style="bold").append(printable(problem.code), style=style)
    gap = "  " if problem.code else ""
    text = f"{' ' * len(mark)}{problem.code}{gap}{readable(problem.sentence)}"
    lines = list(_wrapped(text, width, len(mark)))
    console.print(head + Text(printable(lines[0][len(mark) + len(problem.code) :])), soft_wrap=True)
    for line in lines[1:]:
        _say(console, line, "")
    for text in _parts(problem, verbose=verbose):
        for line in _wrapped(" " * INDENT + text, width, INDENT):
            _say(console, line, "")
    if problem.repeat:
        _say(console, f"{'':{INDENT}}Repeat: {problem.repeat}", "")
    elif problem.run:
        _say(console, f"{'':{INDENT}}Run: {problem.run}", "")


def _parts(problem: Problem, *, verbose: bool) -> Iterator[str]:
    proof = problem_words.proof_line(problem)
    yield f"{proof} {problem_words.shown_by(problem)}".strip()
    if problem.advice:
        yield f"Change: {problem.advice if verbose else problem_words.in_short(problem.advice)}"


def _wrapped(text: str, width: int, indent: int = 0) -> Iterator[str]:
    """Lines of at most `width`; the later ones are indented. A word stays whole, so that it can be copied."""
    yield from textwrap.wrap(
        text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _say(console: Console, line: str, style: str) -> None:
    if line:
        console.print(Text(printable(line), style=style), soft_wrap=True)
