"""`shortage`: what of this machine has run out, as an exception shows it, and what to do about it."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from chaoskit.errors import ExitCode, StoreError

#: What is lost, whatever has run out.
LOST = "this experiment has no verdict; those that had ended keep theirs"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def shortage(error: BaseException) -> str | None:
    """One sentence on what has run out; None for an error of another kind. The errors that led to this one count."""
    return next((said for each in _chain(error) if (said := _said(each)) is not None), None)


def _said(error: BaseException) -> str | None:
    match error:
        case StoreError() if error.exit_code is ExitCode.EXHAUSTED:
            return str(error)
        case MemoryError():
            return f"chaoskit had no memory left: {_FEWER}"
        case OSError(errno=number) if number in _FULL:
            where = f" ({error.filename})" if error.filename else ""
            return f"the disk is full{where}: make room, or run 'chaoskit clean --all'"
        case OSError(errno=errno.EFBIG):
            return (
                f"a file may not grow any more ({error.filename or error}): raise the limit of sizes (ulimit -f)"
            )
        case OSError(errno=errno.ENOMEM):
            return f"the kernel had no memory left for chaoskit: {_FEWER}"
        case OSError(errno=errno.EMFILE | errno.ENFILE):
            return "chaoskit may open no more files: raise the limit (ulimit -n)"
        case OSError(errno=errno.EAGAIN) if "Resource temporarily unavailable" in str(error):
            return f"chaoskit could start no more processes: raise the limit (ulimit -u), or {_FEWER}"
    return None


_FEWER = "run fewer experiments at once (-n 0), or a smaller job"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        hidden = None if following.__suppress_context__ else following.__context__
        following = following.__cause__ or hidden
