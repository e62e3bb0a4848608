"""Exports: what a job saves once in the whole training, such as the averaged weights at its end.

Nobody resumes from an export, so a resume may lose what it is made from, and nothing else shows it.
"""

from __future__ import annotations

import re

from chaoskit.analysis.checkpoints.postmortem_dumps import kind_of
from chaoskit.analysis.record.rank_lifetime import RankLifetime

#: What such a file may say of the process that saved it, and not of the training: where it started, what its random
#: streams were (the streams that the training uses are compared at each step).
OF_PROCESS = re.compile(r"start|first|begin|since|session|process|rng|rand|generator|seed", re.IGNORECASE)


def saved_once(lifetime: RankLifetime) -> frozenset[str]:
    """The keys that no file, nor series of numbered files, of the whole training holds twice; without what is of the
    process."""
    seen: dict[str, list[str]] = {}
    for save in lifetime.saves:
        for key in save.content:
            seen.setdefault(key, []).append(kind_of(save.path))
    return frozenset(
        key for key, kinds in seen.items() if len({*kinds}) == len(kinds) and not OF_PROCESS.search(key)
    )


def parameters_of(lifetime: RankLifetime) -> tuple[str, ...]:
    """The names of the model's parameters, as far as single tensors are known."""
    return tuple({name for named in lifetime.tensors.values() for name in named.get("model", ())})
