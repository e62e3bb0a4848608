"""Huge pages for the memory of a warm parent: a fork copies page tables, and their entries are 512 times fewer then.

Of 220 MB that torch's modules hold, a fork took 6.5 ms and 1.5 ms afterwards, its end 14 ms and 4.5 ms. What a child
writes to is copied by small pages as ever.
"""

from __future__ import annotations

import ctypes

_MADV_COLLAPSE = 25  # Linux 6.1
_SIZE = 2 << 20


def collapse() -> None:
    """Put the process's own anonymous memory on huge pages, as far as the kernel will; half a second for 200 MB."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        maps = [line.split() for line in file]
    for where, rights, _, _, inode, *name in maps:
        if rights != "rw-p" or inode != "0" or name not in ([], ["[heap]"]):
            continue
        begin, end = (int(number, 16) for number in where.split("-"))
        for at in range(-(-begin // _SIZE) * _SIZE, end // _SIZE * _SIZE, _SIZE):
            madvise(at, _SIZE, _MADV_COLLAPSE)  # a refusal costs nothing but time
