"""Sets the wall clock of running processes: in them, and nowhere else, CLOCK_REALTIME is off by some seconds.

A program of its own (standard library only), because a tracer of processes must not be their parent: `clock_patch.py BY
PID...` prints, as JSON, why it failed, by pid.

A process asks for the time by functions that the kernel puts into its memory, the vDSO. These are replaced, as Chaos
Mesh does it: their first instruction becomes a jump to code of ours, in the unused end of the same pages, which asks
the kernel and adds the offset. All threads are stopped meanwhile, and none may be in one of the instructions. A child
that is forked has the offset, too; a program that is started has not.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import struct
import sys
import time
from contextlib import suppress

#: linux/ptrace.h: those that need no signal; and what waits for threads that are no children.
_SEIZE, _INTERRUPT, _DETACH, _GET_REGISTERS, _CONT = 0x4206, 0x4207, 17, 12, 7
_WALL, _EVENT_STOP = 0x40000000, 128
#: In the registers of x86-64, the address of the next instruction.
_NEXT_AT, _REGISTERS = 16 * 8, 27 * 8
#: Seconds in which threads must stop, and in which all of them must be out of the way.
_STOP_LIMIT, _CLEAR_LIMIT = 2.0, 5.0
#: Bytes of a jump, and of the beginning of a function in which no thread may be while it is written.
_JUMP, _BEGINNING = 5, 16
_BILLION, _MILLION = 10**9, 10**6


class _Vdso:
    """The vDSO of this process, which is the same in all of them: the bytes, where each function begins, and where the
    unused end begins. Raises OSError if it is another one than expected."""

    def __init__(self) -> None:
        self.start, size = _mapped(os.getpid())
        with open("/proc/self/mem", "rb") as memory:
            memory.seek(self.start)
            self.image = memory.read(size)
        if self.image[:5] != b"\x7fELF\x02":
            raise OSError("the vDSO is no ELF file of 64 bits")
        headers, _, _, _, _, width, count, _ = struct.unpack_from("<QIHHHHHH", self.image, 40)
        sections = [struct.unpack_from("<IIQQQQIIQQ", self.image, headers + width * n) for n in range(count)]
        ends = [headers + width * count, *(one[4] + one[5] for one in sections if one[1] != 8)]
        self.end = (max(ends) + 15) // 16 * 16
        self.functions: dict[str, int] = {}
        for symbols in (one for one in sections if one[1] == 11):
            names = sections[symbols[6]][4]
            for at in range(symbols[4], symbols[4] + symbols[5], 24):
                name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", self.image, at)
                found = self.image[names + name : self.image.index(b"\0", names + name)].decode()
                self.functions[found] = value

    def replaced(self, by: float) -> tuple[bytes, dict[int, bytes]]:
        """The code of ours, and the beginning of each function: as it was, if the clock is right. Raises OSError."""
        code, replaced = _code(by)
        if self.end + len(code) > len(self.image):
            raise OSError("the vDSO of this kernel has no room left")
        firsts = {}
        for name, at in replaced.items():
            if name not in self.functions:
                raise OSError(f"the vDSO of this kernel has no {name}")
            begin = self.functions[name]
            jump = b"\xe9" + struct.pack("<i", self.end + at - begin - _JUMP)
            firsts[begin] = jump if by else self.image[begin : begin + _JUMP]
        return code, firsts


def _code(by: float) -> tuple[bytes, dict[str, int]]:
    """Instructions of x86-64 that ask the kernel and add `by` seconds; and where the code for each function begins."""
    nanoseconds = round(by * _BILLION)
    whole, rest = divmod(nanoseconds, _BILLION)
    seconds = b"\x48\xba" + struct.pack("<q", whole)  # mov rdx, seconds

    def added(first: bytes, get: bytes, limit: int, part: int, put: bytes) -> bytes:
        """Add to a pair of seconds and parts of them, of which `limit` make a second."""
        return b"".join([
            first, b"\x48\xb9", struct.pack("<q", part), get, seconds,  # mov rcx, part; add rcx, [second word]
            b"\x48\x81\xf9", struct.pack("<i", limit), b"\x7c\x0a",  # cmp rcx, limit; jl over the next two
            b"\x48\x81\xe9", struct.pack("<i", limit), b"\x48\xff\xc2",  # sub rcx, limit; inc rdx
            put, b"\xc3",  # mov [second word], rcx; add [first word], rdx; ret
        ])  # fmt: skip

    # eax = number of the system call; syscall; to the end if it failed, or if it is not about this clock.
    gettime = added(
        bytes.fromhex("b8e4000000 0f05 4885c0 753b 85ff 7405 83ff05 7532"), bytes.fromhex("48034e08"), _BILLION, rest,
        bytes.fromhex("48894e08 480116"),
    )  # fmt: skip
    timeofday = added(
        bytes.fromhex("b860000000 0f05 4885c0 7537 4885ff 7432"), bytes.fromhex("48034f08"), _MILLION, rest // 1000,
        bytes.fromhex("48894f08 480117"),
    )  # fmt: skip
    # eax = number; syscall; add rax, seconds; if rdi is an address, mov [rdi], rax; ret
    seconds_only = bytes.fromhex("b8c9000000 0f05") + seconds + bytes.fromhex("4801d0 4885ff 7403 488907 c3")
    code, begins = b"", {}
    for name, one in (("clock_gettime", gettime), ("gettimeofday", timeofday), ("time", seconds_only)):
        begins[f"__vdso_{name}"] = len(code)
        code += one.ljust(-(-len(one) // 16) * 16, b"\x90")
    return code, begins


def _mapped(pid: int) -> tuple[int, int]:
    """Where the process has its vDSO, and the size. Raises OSError."""
    with open(f"/proc/{pid}/maps") as lines:
        for line in lines:
            if line.endswith("[vdso]\n"):
                start, end = (int(each, 16) for each in line.split()[0].split("-"))
                return start, end - start
    raise OSError("it has no vDSO")


class _Stopped:
    """All threads of a process, stopped until it is left. Raises OSError where that is not possible."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.restype = ctypes.c_long
        self._libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        #: By thread, the signal that it was about to get.
        self.threads: dict[int, int] = {}

    def __enter__(self) -> _Stopped:
        try:
            # A thread that is just being started is found the next time.
            while new := [tid for tid in map(int, os.listdir(f"/proc/{self._pid}/task")) if tid not in self.threads]:
                for tid in new:
                    self._stop(tid, _SEIZE)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for tid, signum in self.threads.items():
            with suppress(OSError):  # it was killed meanwhile
                self._ask(_DETACH, tid, signum)

    def next_instructions(self) -> list[int]:
        """The address of the next instruction of each thread."""
        found = []
        for tid in self.threads:
            registers = ctypes.create_string_buffer(_REGISTERS)
            self._ask(_GET_REGISTERS, tid, ctypes.addressof(registers))
            found.append(struct.unpack_from("<Q", registers, _NEXT_AT)[0])
        return found

    def go_on(self) -> None:
        """Let the threads run for a moment."""
        for tid, signum in list(self.threads.items()):
            self._ask(_CONT, tid, signum)
        time.sleep(0.001)
        for tid in list(self.threads):
            self._stop(tid, _INTERRUPT)

    def _stop(self, tid: int, how: int) -> None:
        try:
            self._ask(how, tid, 0)
            self.threads[tid] = 0
            if how == _SEIZE:
                self._ask(_INTERRUPT, tid, 0)
        except ProcessLookupError:  # it has ended
            self.threads.pop(tid, None)
            return
        deadline = time.monotonic() + _STOP_LIMIT
        while True:
            got, status = os.waitpid(tid, _WALL | os.WNOHANG)
            if got:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"thread {tid} does not stop: it waits for a device")
            time.sleep(0.0005)
        if not os.WIFSTOPPED(status):
            self.threads.pop(tid, None)
        elif status >> 16 != _EVENT_STOP:
            self.threads[tid] = os.WSTOPSIG(status)

    def _ask(self, request: int, tid: int, data: int) -> None:
        if self._libc.ptrace(request, tid, None, data) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def shift(pid: int, by: float, vdso: _Vdso) -> None:
    """Let the wall clock of the process be off by so many seconds; 0: set it right. Raises OSError, ProcessLookupError
    if it has ended."""
    code, firsts = vdso.replaced(by)
    deadline = time.monotonic() + _CLEAR_LIMIT
    with _Stopped(pid) as stopped:
        start, size = _mapped(pid)
        if size != len(vdso.image):
            raise OSError("it is a program of 32 bits")
        busy = [range(start + at, start + at + _BEGINNING) for at in firsts]
        busy.append(range(start + vdso.end, start + vdso.end + len(code)))
        while any(at in one for at in stopped.next_instructions() for one in busy):
            if time.monotonic() > deadline:
                raise TimeoutError("it asks for the time again and again")
            stopped.go_on()
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            if by:
                memory.seek(start + vdso.end)
                memory.write(code)
            for at, first in firsts.items():
                memory.seek(start + at)
                memory.write(first)


def main(words: list[str]) -> int:
    if platform.machine() != "x86_64":
        print(json.dumps({"all": f"processors of the kind {platform.machine()} are not known, only x86-64"}))
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # in the middle of this nobody may be left stopped
    failed = {}
    try:
        vdso = _Vdso()
    except (OSError, ValueError, struct.error) as error:
        print(json.dumps({"all": str(error)}))
        return 1
    for pid in map(int, words[1:]):
        try:
            shift(pid, float(words[0]), vdso)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except OSError as error:
            failed[pid] = error.strerror or str(error)
    print(json.dumps(failed))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
