"""Turns a forked process into what a freshly started interpreter would be, and runs its program in it.

`put_on` sets the command line, the environment, the directory, the signals and the seeds; `run` runs the program as
`__main__`. What cannot be set (the seed of `hash`, memory addresses, modules that are already imported) is listed
in docs/explanation/launching.md.
"""

from __future__ import annotations

import builtins
import ctypes
import importlib
import io
import os
import random
import runpy
import signal
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from typing import Any

from chaoskit.environments.launch.program import Program

_PR_SET_NAME, _PR_SET_MM, _PR_SET_MM_MAP = 15, 35, 14
_NO_FILE = 0xFFFFFFFF
#: Signals that a parent, or a keeper, catches for itself.
_CAUGHT = (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.sbrk.restype = ctypes.c_void_p
#: What the kernel shows as our command line and environment; it must live as long as the process.
_shown: Any = None


def put_on(
    program: Program, *, env: Mapping[str, str], cwd: str, path: Sequence[str], changed: Mapping[str, str]
) -> None:
    """Everything but the program itself. `path` is `sys.path` as the interpreter begins with it, without a script;
    `changed` is what of `env` an interpreter sets anew while it starts and imports."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update({**env, **changed})
    _default_signals()
    _new_seeds()
    _look_again()
    name(program.words, env=env, executed=program.executed)
    sys.orig_argv[:] = program.words
    sys.argv[:] = ["-m" if program.module else program.target, *program.args]
    sys.path[:] = path
    if not sys.flags.safe_path:
        sys.path.insert(0, os.getcwd() if program.module else os.path.dirname(os.path.realpath(program.target)))
    if not program.unbuffered and not env.get("PYTHONUNBUFFERED"):
        _buffer_output()


def run(program: Program) -> None:
    """The program as `__main__`; ends as the interpreter would end it: by returning, or by what it raises."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={})
    before = sys.modules["__main__"]
    sys.modules.update({name: main for name, module in sys.modules.items() if module is before})  # __mp_main__ too
    try:
        if program.module:
            sys.modules.pop(program.target, None)  # runpy warns of what was imported before
            runpy._run_module_as_main(program.target)  # type: ignore[attr-defined]
        else:
            _run_file(os.path.abspath(program.target), main)
    except SystemExit:
        raise
    except BaseException as error:
        _hide_ours(error, late=program.module)
        raise


def _hide_ours(error: BaseException, *, late: bool) -> None:
    """Have the interpreter, which is about to show an exception, leave out the frames of ours at the bottom. It flushes
    the output before it does so, except after a module: then it is `late`."""
    shown, hook, output = error.__traceback__, getattr(sys, "excepthook", sys.__excepthook__), sys.stdout
    while shown is not None and shown.tb_frame.f_code.co_filename == __file__:
        shown = shown.tb_next

    def show(kind: type[BaseException], value: BaseException, _: object) -> None:
        sys.excepthook, sys.stdout, sys.last_traceback = hook, output, shown
        hook(kind, value.with_traceback(shown), shown)

    sys.excepthook = show
    if late:
        sys.stdout = None


def name(words: Sequence[str], *, env: Mapping[str, str], executed: str = "") -> None:
    """Have the kernel show this command line and environment, as `ps` and /proc/PID do; `executed` is the file that
    names the process, if it is not the first word.

    PR_SET_MM_MAP, which needs no privilege as long as the executable stays; raises OSError where the kernel was built
    without it (CONFIG_CHECKPOINT_RESTORE).
    """
    global _shown
    with open("/proc/self/stat", "rb") as file:
        stat = file.read().rpartition(b")")[2].split()
    at = {field: int(stat[number - 3]) for field, number in _FIELDS.items()}
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    entries = b"".join(os.fsencode(f"{key}={value}") + b"\0" for key, value in env.items())
    shown = ctypes.create_string_buffer(line + entries, len(line) + len(entries) or 1)
    begin = ctypes.addressof(shown)
    at |= {"arg_start": begin, "arg_end": begin + len(line), "env_start": begin + len(line)}
    at |= {"env_end": begin + len(line) + len(entries), "brk": _libc.sbrk(0)}
    told = _Map(exe_fd=_NO_FILE, **at)
    if _libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(told), ctypes.sizeof(told), 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_MM_MAP): {os.strerror(number)}")
    _shown = shown
    _libc.prctl(_PR_SET_NAME, os.fsencode(os.path.basename(executed or words[0]))[:15], 0, 0, 0)


class _Map(ctypes.Structure):
    """`struct prctl_mm_map` of the kernel."""

    _fields_ = [
        *(
            (field, ctypes.c_uint64)
            for field in (
                "start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack",
                "arg_start", "arg_end", "env_start", "env_end",
            )
        ),
        ("auxv", ctypes.c_void_p),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    ]  # fmt: skip


#: Where /proc/PID/stat tells what the map must say again, counted from 1 as proc(5) does.
_FIELDS = {
    "start_code": 26, "end_code": 27, "start_stack": 28, "start_data": 45, "end_data": 46, "start_brk": 47,
}  # fmt: skip


def _run_file(path: str, main: types.ModuleType) -> None:
    loader = SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __cached__=None, __loader__=loader, __spec__=None)
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _default_signals() -> None:
    signal.set_wakeup_fd(-1)
    for signum in _CAUGHT:
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _new_seeds() -> None:
    """What every interpreter draws from the system once."""
    random.seed()
    if (numpy := sys.modules.get("numpy.random")) is not None:
        numpy.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.seed()
    if (processes := sys.modules.get("multiprocessing.process")) is not None:
        processes.current_process().authkey = os.urandom(32)


def _look_again() -> None:
    """Forget what was found out about threads, directories and files."""
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
    importlib.invalidate_caches()
    for module, fact, value in (
        ("tempfile", "tempdir", None),
        ("multiprocessing.process", "ORIGINAL_DIR", os.getcwd()),
    ):
        if module in sys.modules:
            setattr(sys.modules[module], fact, value)


def _buffer_output() -> None:
    """The standard streams as they are without `-u`: nobody watches them, so output is kept in blocks."""
    sys.stdin.reconfigure(write_through=False)  # type: ignore[union-attr]
    for stream, lines in (("stdout", False), ("stderr", True)):
        old = getattr(sys, stream)
        raw = io.FileIO(old.fileno(), "w", closefd=False)
        raw.name = f"<{stream}>"
        new = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=old.encoding, errors=old.errors, newline="\n", line_buffering=lines
        )
        new.mode = "w"  # type: ignore[misc]
        setattr(sys, stream, new)
        setattr(sys, f"__{stream}__", new)
