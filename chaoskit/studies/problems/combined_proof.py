"""`combined`: what the proofs of all experiments that show one problem come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chaoskit.studies.problems.component_words import words
from chaoskit.studies.problems.problem import Proof


def combined(proofs: Sequence[Proof]) -> Proof:
    """One proof: 'with the position in the data put back, 22 of 23 experiments pass', and why another one does not.

    `proofs` has one of each experiment, at least one. It is `more-lost` if any of them is, `proven` if any of the
    others is, else `impossible`. `run` and `experiment` are those of the first one with that outcome.
    """
    exact = [proof for proof in proofs if proof.outcome == "proven"]
    more = [proof for proof in proofs if proof.outcome == "more-lost"]
    rest = [*more, *(proof for proof in proofs if proof.outcome == "impossible")]
    told = [*more, *exact, *rest][0]
    put_back = tuple(dict.fromkeys(name for proof in (*exact, *more) for name in proof.put_back))
    if not put_back:
        return told
    sentence = f"with {words(put_back)} put back, {len(exact)} of {len(proofs)} experiments pass"
    if rest:
        others = f" (and {len(rest) - 1} more)" if len(rest) > 1 else ""
        sentence += f"; {rest[0].experiment}{others} does not: {rest[0].sentence}"
    return replace(told, sentence=sentence, put_back=put_back)
