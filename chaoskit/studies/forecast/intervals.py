"""The optimal checkpoint interval in closed form: Young's formula, Daly's, and the share of time that each leaves.

An interval is the training time between the end of one save and the start of the next; the save itself is not part of
it. All times are seconds. Both formulas assume that failures are memoryless and that a save blocks the training. For a
save in the background, give only the seconds that it blocks.
"""

from __future__ import annotations

import math

from chaoskit.validation import check_number


def young(save_seconds: float, mtbf_seconds: float) -> float:
    """Return the interval sqrt(2 δ M) that is optimal to first order, in seconds.

    `save_seconds` (δ) is the blocking time of one save, `mtbf_seconds` (M) the mean time between failures of the whole
    job. Raises UsageError unless both are positive and finite.

    Source: J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974.
    """
    save, mtbf = _checked("young", save_seconds, mtbf_seconds)
    return math.sqrt(2) * math.sqrt(save) * math.sqrt(mtbf)


def daly(save_seconds: float, mtbf_seconds: float) -> float:
    """Return the optimal interval to higher order, in seconds; the arguments are those of `young`.

    For δ < 2 M it is sqrt(2 δ M) (1 + sqrt(δ / 2M) / 3 + δ / (18 M)) - δ; otherwise it is M.

    Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3), 2006.
    """
    save, mtbf = _checked("daly", save_seconds, mtbf_seconds)
    if save >= 2 * mtbf:
        return mtbf
    ratio = save / mtbf / 2
    return young(save, mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save


def training_share(
    interval_seconds: float, save_seconds: float, restart_seconds: float, mtbf_seconds: float
) -> float:
    """Return the share of wall time that becomes lasting training, from 0 to 1, for memoryless failures.

    It is interval / (M exp(R/M) (exp((interval + δ) / M) - 1)): Daly's expected wall time of one interval and its save,
    inverted. `restart_seconds` (R) is the time from a failure to the first new step; a failure can also strike
    during it. Raises UsageError unless the interval and M are positive, and the two others not negative.
    """
    where = "training_share"
    interval = check_number(where, "interval_seconds", interval_seconds, over=0)
    mtbf = check_number(where, "mtbf_seconds", mtbf_seconds, over=0)
    save = check_number(where, "save_seconds", save_seconds, least=0)
    restart = check_number(where, "restart_seconds", restart_seconds, least=0)
    try:
        return interval / (mtbf * math.exp(restart / mtbf) * math.expm1((interval + save) / mtbf))
    except OverflowError:  # an interval of hundreds of times the mean time between failures never ends
        return 0.0


def _checked(where: str, save_seconds: float, mtbf_seconds: float) -> tuple[float, float]:
    return (
        check_number(where, "save_seconds", save_seconds, over=0),
        check_number(where, "mtbf_seconds", mtbf_seconds, over=0),
    )
