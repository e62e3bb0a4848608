"""`printable`: the one way in which text of others reaches a terminal: names, logs, output of jobs, stored suites.

Nothing in it controls the terminal, or forges a line of ours. `PlainConsole` is the console of rich that uses it.
"""

from __future__ import annotations

import re

#: Control characters, what reverses the direction of a line or ends it elsewhere, and lone surrogates.
UNPRINTABLE = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Escape control characters but for line ends, so that text of others cannot control the terminal."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text.expandtabs())


def one_line(text: str) -> str:
    """The same with escaped line ends, for a name inside a line of ours."""
    return printable(text).replace("\n", r"\n")
