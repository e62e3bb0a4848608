"""`near_miss`: what somebody may have meant by a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def near_miss(name: str, known: Collection[str]) -> str:
    """Return '; did you mean 'x'?' if a known name is near, else a list of all known names."""
    close = difflib.get_close_matches(name, known, n=1) or [each for each in known if len(name) > 2 and name in each]
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(sorted(known))}"
