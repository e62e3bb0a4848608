"""`words`: names the components that were put back, for sentences."""

from __future__ import annotations

from collections.abc import Collection

from chaoskit.analysis.finding import STREAMS, WORDS

#: The component that is the position in the data.
POSITION = "batch"


def words(components: Collection[str]) -> str:
    """'the LR and the torch CPU stream'."""
    shown = []
    for name in components:
        family, _, stream = name.partition(".")
        if name == POSITION:
            shown.append("the position in the data")
            continue
        shown.append(f"the {STREAMS.get(stream, stream)} stream" if stream else f"the {WORDS.get(family, family)}")
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
