"""`bitflip`: bits of a number of the training flip, as from a cosmic ray or a core that miscalculates."""

from __future__ import annotations

from typing import Unpack

from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numeric.numbers import CorruptNumber, NumberOptions, corrupt_number
from chaoskit.faults.registry import fault
from chaoskit.validation import check_choice, check_whole

#: Which bits of a number.
WHICH = ("any", "exponent", "mantissa", "sign")


@fault("bitflip", CorruptNumber)
def bitflip(
    *,
    rank: RankSpec,
    bits: int = 1,
    which: str = "any",
    bit: int | None = None,
    **options: Unpack[NumberOptions],
) -> Fault:
    """Flip `bits` bits of a number of a target (the loss), on `rank`: drawn by `seed` from `which` of its bits.

    `which` is 'exponent', 'mantissa', 'sign' or 'any'. `bit` names one bit instead, 0 the least significant; a
    number without such a bit stays as it is, and the fault is missed. One element, unless `elements` says
    otherwise. Observed once the rank has reported the change. `NumberOptions` lists the other arguments. Raises
    UsageError for arguments that are not valid.
    """
    check_whole("bitflip", "bits", bits, least=1, most=64)
    check_choice("bitflip", "which", which, WHICH)
    if which == "sign" and bits > 1:
        raise UsageError(f"bitflip: bits must be 1 where which is 'sign': a number has one sign bit, not {bits}")
    if bit is not None:
        check_whole("bitflip", "bit", bit, least=0, most=63, also="None")
    kind = "" if which == "any" else f"{which} "
    flipped = f"bit {bit}" if bit is not None else f"{bits} {kind}bit{'' if bits == 1 else 's'}"
    how = {"kind": "bitflip", "bits": bits, "which": which, "bit": bit}
    return corrupt_number("bitflip", f"flip {flipped} in {{}}", how, rank=rank, default=1, **options)
