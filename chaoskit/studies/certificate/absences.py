"""Why a row does not apply: reasons that are properties of the job. All other reasons leave a row untested."""

from __future__ import annotations

import re
from collections.abc import Callable

from chaoskit.nodes import Nodes

#: What an experiment says as it skips, where that is how the job is built and not how or where it was run.
OF_THE_JOB = re.compile(
    "|".join((
        r"one rank alone writes a checkpoint",
        r"the job was seen to begin one epoch only",
        r"the job keeps each checkpoint in one directory below \{out\}",
            r"the job keeps no pointer: .*",
        r"no file of the checkpoint is known to have checksums .*",
        r"no file of the checkpoint is text that names its other files",
        r"the names of files do not tell one checkpoint from another",
        r"the job shards its model: no rank holds a replica of another's parameters",
        r"each rank trains a part of the model of its own, so no rank holds a replica of another's",
    ))
)  # fmt: skip
#: How the components of a row are called where a job has none of them.
COMPONENTS = {"scaler": "gradient scaler", "ema": "averaged copy of the model"}


def of_the_job(sentence: str, *, ranks: int) -> bool:
    """Whether an experiment was skipped for a property of the job, which ran on so many ranks. With one rank alone
    nothing can be said of what several ranks do."""
    return ranks > 1 and OF_THE_JOB.fullmatch(sentence) is not None


def _fixed_size(nodes: Nodes) -> str:
    """The command fixes the number of nodes; one node alone may just be the small run."""
    return f"its command fixes the number of nodes ({nodes})" if nodes.most > 1 and not nodes.elastic else ""


#: By the name in `Row.only_if`: why the row does not apply to a job of these nodes; empty if it does.
CONDITIONS: dict[str, Callable[[Nodes], str]] = {"elastic": _fixed_size}
