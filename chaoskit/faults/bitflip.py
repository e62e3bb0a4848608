"""`bitflip`: bits of a number of the training are turned over, as by a cosmic ray, or a core that miscalculates."""

from __future__ import annotations

from chaoskit.errors import UsageError
from chaoskit.faults.fault import Fault, RankSpec
from chaoskit.faults.numbers import Elements, check_whole, corruption
from chaoskit.places import Place

#: Which bits of a number.
WHICH = ("any", "exponent", "mantissa", "sign")


def bitflip(
    *,
    rank: RankSpec,
    into: Place | str | None = None,
    bits: int = 1,
    which: str = "any",
    bit: int | None = None,
    elements: Elements = 1,
    steps: int | None = 1,
    again: bool = False,
    seed: int = 0,
) -> Fault:
    """Turn over `bits` bits of a number in a place (the loss), on `rank`: drawn by `seed` from `which` of its bits.

    `which` is 'exponent', 'mantissa', 'sign' or 'any'. `bit` names one instead, 0 being the least significant; a
    number that has no such bit is left alone, and the fault is missed. Observed once the rank has told what it has
    changed. The other arguments: see `nan`. Raises UsageError for arguments that cannot be.
    """
    check_whole("bitflip", "bits", bits, most=64)
    if which not in WHICH:
        raise UsageError(f"bitflip: which must be one of {', '.join(WHICH)}, not {which!r}")
    if which == "sign" and bits > 1:
        raise UsageError(f"bitflip: bits must be 1 where which is 'sign': a number has one, not {bits}")
    if bit is not None:
        check_whole("bitflip", "bit", bit, least=0, most=63, also="None")
    kind = "" if which == "any" else f"{which} "
    told = f"bit {bit}" if bit is not None else f"{bits} {kind}bit{'' if bits == 1 else 's'}"
    how = {"kind": "bitflip", "bits": bits, "which": which, "bit": bit}
    return corruption(
        "bitflip",
        f"flip {told} in {{}}",
        rank=rank,
        into=into,
        how=how,
        elements=elements,
        steps=steps,
        again=again,
        seed=seed,
    )
