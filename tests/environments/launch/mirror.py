"""Describes the process that runs it, as JSON: `python mirror.py FILE`, or under torchrun FILE-RANK for each rank."""

from __future__ import annotations

import gc
import json
import locale
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import warnings

AT_FIRST = {
    "argv": list(sys.argv),
    "orig_argv": list(sys.orig_argv),
    "path": list(sys.path),
    "main": sorted(globals()),
    "environ": dict(os.environ),
    "threads": threading.active_count(),
}

import numpy  # noqa: E402
import torch  # noqa: E402


def fields(name: str) -> dict[str, str]:
    """/proc/self/status or another file of its kind."""
    with open(f"/proc/self/{name}") as file:
        return {key: value.strip() for key, _, value in (line.partition(":") for line in file)}


def words(name: str, pid: object = "self") -> list[str]:
    """The words of a file whose entries end in a zero byte."""
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def links() -> dict[str, str]:
    """What every open file is, but the one that looks."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
    return found


def stream(name: str) -> dict[str, str]:
    """A standard stream, and what it lies on."""
    text = getattr(sys, name)
    kept = ("encoding", "errors", "line_buffering", "write_through", "name", "mode", "newlines")
    told = {key: repr(getattr(text, key)) for key in kept}
    told |= {"isatty": repr(text.isatty()), "kind": type(text).__name__, "buffer": type(text.buffer).__name__}
    told |= {"original": repr(getattr(sys, f"__{name}__") is text), "fd": repr(text.fileno())}
    told |= {"raw": repr(text.buffer.raw.name) if hasattr(text.buffer, "raw") else repr(text.buffer.name)}
    return told | {"closefd": repr(getattr(text.buffer, "raw", text.buffer).closefd)}


def describe() -> dict[str, object]:
    """Everything that a process could tell itself apart by."""
    main = sys.modules["__main__"]
    status = fields("status")
    return AT_FIRST | {
        "first path": sys.path[0],
        "executable": sys.executable,
        "prefix": [sys.prefix, sys.exec_prefix, sys.base_prefix, getattr(sys, "_base_executable", "")],
        "flags": {
            name: value
            for name in dir(sys.flags)
            if name[0] != "_" and not callable(value := getattr(sys.flags, name))
        },
        "xoptions": sys._xoptions,
        "warnoptions": sys.warnoptions,
        "cwd": os.getcwd(),
        "main is this": [main.__dict__ is globals(), sys.modules.get("__mp_main__") is main],
        "main's": {
            name: repr(getattr(main, name, "absent")).partition(" object at")[0]
            for name in ("__file__", "__name__", "__package__", "__doc__", "__cached__", "__annotations__", "__spec__")
        },
        "main's builtins": type(__builtins__).__name__,
        "main's loader": f"{type(__loader__).__module__}.{type(__loader__).__name__} {getattr(__loader__, 'path', '')}",
        "cmdline": words("cmdline"),
        "shown environment": dict(word.partition("=")[::2] for word in words("environ")),
        "comm": open("/proc/self/comm").read(),
        "exe": os.readlink("/proc/self/exe"),
        "dumpable": os.stat("/proc/self/environ").st_uid,
        "signals": {name: status[name] for name in ("SigIgn", "SigCgt", "SigBlk", "SigPnd", "ShdPnd")},
        "handlers": {signum.name: repr(signal.getsignal(signum)) for signum in signal.Signals},
        "wakeup": signal.set_wakeup_fd(-1),
        "files": links(),
        "leads its group": os.getpgrp() == os.getpid(),
        "leads its session": os.getsid(0) == os.getpid(),
        "above": words("cmdline", os.getppid()),
        "streams": {name: stream(name) for name in ("stdin", "stdout", "stderr")},
        "hooks": [
            repr(hook) for hook in (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook)
        ],
        "traced": [sys.gettrace() is not None, sys.getprofile() is not None],
        "thread": threading.main_thread().name,
        "in the main thread": threading.current_thread() is threading.main_thread(),
        "native id": threading.get_native_id() == os.getpid() == threading.main_thread().native_id,
        "torch's threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "torch's modes": [
            torch.is_grad_enabled(), str(torch.get_default_dtype()), torch.get_float32_matmul_precision()
        ],
        "accelerator": torch.cuda.is_initialized(),
        "umask": status["Umask"],
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "cores": sorted(os.sched_getaffinity(0)),
        "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
        "group of control": fields("cgroup"),
        "oom": open("/proc/self/oom_score_adj").read(),
        "limits": {
            name: resource.getrlimit(getattr(resource, name))
            for name in dir(resource) if name.startswith("RLIMIT_")
        },
        "collects": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "warnings": [repr(each) for each in warnings.filters],
        "temporary": tempfile.gettempdir(),
        "process": multiprocessing.current_process().name,
        "processes": [
            str(multiprocessing.process.ORIGINAL_DIR),
            multiprocessing.get_start_method(allow_none=True),
            repr(multiprocessing.parent_process()),
            len(multiprocessing.active_children()),
        ],
        "locale": [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(False), sys.getfilesystemencoding()],
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
        "importers": [[repr(each).partition(" at ")[0] for each in sys.meta_path], len(sys.path_hooks)],
        "interactive": hasattr(sys, "ps1"),
        "last": hasattr(sys, "last_type"),
        "argc": len(sys.argv),
    }  # fmt: skip


def seeds() -> dict[str, object]:
    """What no two processes share."""
    return {
        "python": random.random(),
        "torch": torch.initial_seed(),
        "torch's stream": hash(bytes(torch.get_rng_state().tolist())),
        "numpy": float(numpy.random.random()),
        "numpy's own": float(numpy.random.default_rng().random()),
        "authkey": multiprocessing.current_process().authkey.hex(),
        "temporary": tempfile.mktemp(),
    }


def identity() -> dict[str, object]:
    """What differs by its nature."""
    return {"pid": os.getpid(), "ppid": os.getppid(), "hash": hash("a")}


if __name__ == "__main__":
    told = {"like": describe(), "seeds": seeds(), "identity": identity()}
    suffix = f"-{os.environ['RANK']}" if "RANK" in os.environ else ""
    with open(sys.argv[1] + suffix, "w") as out:
        json.dump(told, out)
