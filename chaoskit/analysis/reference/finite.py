"""Whether an uninterrupted run trains on numbers: one that is all NaN equals every other one, so it proves nothing."""

from __future__ import annotations

from chaoskit.analysis.record.history import History
from chaoskit.analysis.record.rank_lifetime import RankLifetime
from chaoskit.analysis.record.steps import values
from chaoskit.errors import ReferenceFailed

#: A guard may leave out a step of a bad batch, the last one too; so many at the end are no bad batches.
_LAST = 3

_ADVICE = (
    "A run under faults would hold the same NaN, so that it would equal this one and prove nothing. Repair the "
    "training first; torch.autograd.set_detect_anomaly(True) names the operation that makes the first NaN"
)


def require_finite(control: History, which: str, *, run: str = "") -> None:
    """Raises ReferenceFailed, code `reference-nonfinite`, if the parameters of a rank became NaN or infinite, or if its
    losses are not finite at the end.

    A mask that holds infinity before the first step is none of these parameters. Gradients may overflow, as under a
    gradient scaler, and single losses too, as long as the parameters stay finite.
    """
    for lifetime in control.incarnations[0].ranks.values():
        if (found := _parameters(lifetime) or _losses(lifetime)) is not None:
            raise ReferenceFailed(
                f"{which}, without any fault, does not train on finite numbers: {found}. {_ADVICE}",
                code="reference-nonfinite",
                run=run,
            )


def _parameters(lifetime: RankLifetime) -> str | None:
    found = [place for place, names in lifetime.steps.nonfinite.items() if "model" in names]
    if not found:
        return None
    place = min(found)
    seen = f"the parameters of rank {lifetime.rank} hold NaN or infinity when step {place + 1} begins"
    bad = [at for at in range(place) if _nonfinite(lifetime.steps.losses[at])]
    return f"{seen}; its loss was {_shown(lifetime, bad[0])} at step {bad[0] + 1}" if bad else seen


def _losses(lifetime: RankLifetime) -> str | None:
    losses = lifetime.steps.losses
    since = len(losses)
    while since and _nonfinite(losses[since - 1]):
        since -= 1
    if since == len(losses) or len(losses) - since < min(_LAST, len(losses)):
        return None
    return f"the loss of rank {lifetime.rank} is {_shown(lifetime, since)} from step {since + 1} to the last"


def _nonfinite(losses: str) -> bool:
    """Whether a step has losses and none of them is finite."""
    found = values(losses)
    return bool(found) and not any(one - one == 0 for one in found or ())


def _shown(lifetime: RankLifetime, place: int) -> str:
    return lifetime.steps.losses[place].split()[0]
