"""The wire: a process that carries the frames between a host and the bridge, and delays, slows or damages them.

It needs only packet sockets from the kernel, which may have no netem. The host's cable `vN` leaves the bridge,
another pair `wN`-`bN` takes its place there, and the process carries frames between `vN` and `wN`. Checksums and
long frames pass unchanged, by PACKET_VNET_HDR (see `frames`): no interface setting is changed, and one read moves
64 KiB. A frame of several packets is delayed, queued and dropped as one. Standard library only.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import NoReturn

from chaoskit.environments.netns.frames import Bytes, carries_data, damage, tally

#: What a slow link lets wait at most, in bytes a direction; what comes then is dropped, as by a router.
QUEUE = 256 << 10
#: What may be on its way at most, in bytes a direction, where there is a delay.
IN_FLIGHT = 64 << 20

COUNTS = ("packets", "bytes", "corrupted", "dropped", "held")
_PACKETS, _BYTES, _CORRUPTED, _DROPPED, _HELD = range(len(COUNTS))

_SOL_PACKET, _STATISTICS, _VNET_HDR, _IGNORE_OUTGOING = 263, 6, 15, 23
_ALL_PROTOCOLS = 3
_GET_FLAGS, _RUNNING = 0x8913, 0x40
_LONGEST_FRAME = 1 << 17
_BUFFER = 8 << 20  # asked for; the kernel gives what it will
_AT_A_TIME = 64
_PAUSE = 60.0  # what select can bear
_PATIENCE = 5.0


@dataclass(frozen=True)
class Quality:
    """What a wire does to frames, in each direction, so that a round trip takes twice the delay.

    `delay` seconds, plus or minus up to `jitter` (frames stay in order: a late one delays those behind it); `rate`
    bytes per second; a flipped bit in `corrupt` percent of the packets. `seed` chooses the jitter and the bits.
    Raises ValueError.
    """

    delay: float = 0.0
    jitter: float = 0.0
    rate: float | None = None
    corrupt: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.delay < math.inf:
            raise ValueError(f"delay must be a number of seconds, 0 or more, not {self.delay!r}")
        if not 0 <= self.jitter <= self.delay:
            raise ValueError(f"jitter must be from 0 to the delay, which is {self.delay!r}, not {self.jitter!r}")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be a number of bytes per second over 0, not {self.rate!r}")
        if not 0 <= self.corrupt <= 100:
            raise ValueError(f"corrupt must be a percentage from 0 to 100, not {self.corrupt!r}")


class Wire:
    """The process between the interfaces `inner` and `outer` of the network namespace that the caller, who has one
    thread, is in now. It ends by `close` or with the caller. Raises OSError."""

    def __init__(self, inner: str, outer: str, quality: Quality) -> None:
        self._between = f"{inner} and {outer}"
        self._shared = memoryview(mmap.mmap(-1, 8 * len(COUNTS))).cast("d")
        with ExitStack() as opened:
            ends = [opened.enter_context(_open(name)) for name in (inner, outer)]
            control, self._control = os.pipe()
            opened.callback(os.close, control)
            with ExitStack() as undo:
                undo.callback(os.close, self._control)
                caller = os.pidfd_open(os.getpid())
                opened.callback(os.close, caller)
                self._pid = os.fork()
                if self._pid == 0:
                    _live([ends[0].fileno(), ends[1].fileno(), control, caller], quality, self._shared)
                undo.pop_all()
        self._process = os.pidfd_open(self._pid)
        self._closed = False

    def counts(self) -> dict[str, float]:
        """What went through so far, both ways: `packets` of TCP and UDP, their `bytes`, how many of them were
        `corrupted`, `held`, the seconds that they were held back, all together, and `dropped`: packets of any kind.
        The kernel's search for addresses proves nothing of a job, so it is not counted. Raises ChildProcessError where
        the wire has died."""
        if not self._closed and self._has_ended(0.0):
            raise ChildProcessError(f"the wire between {self._between} has died")
        return dict(zip(COUNTS, self._shared, strict=True))

    def close(self) -> None:
        """Send on what is held back, and end; may be called again."""
        if self._closed:
            return
        self._closed = True
        # A word and not only the end of the pipe, which another child of the caller may hold open.
        with suppress(BrokenPipeError):
            os.write(self._control, b".")
        os.close(self._control)
        if not self._has_ended(_PATIENCE):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        os.close(self._process)

    def _has_ended(self, seconds: float) -> bool:
        """Whether it has, or does within so many seconds."""
        poll = select.poll()  # and not select, which takes no number over 1023
        poll.register(self._process, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def insert(number: int, quality: Quality, ip: Callable[..., object], *, bridge: str = "chaos") -> Wire:
    """Put a wire between `vNUMBER` and the bridge, in whose network namespace the caller is; `ip` runs lines as
    `network.ip` does. Connections survive, though some packets are lost. If it fails, everything is as before;
    raises what `ip` raises, or OSError.
    """
    inner, outer, port = f"v{number}", f"w{number}", f"b{number}"
    quiet = "addrgenmode none up"  # no addresses: this namespace must not say anything of its own
    with ExitStack() as undo:
        ip(f"link add {outer} type veth peer name {port}")
        undo.callback(ip, f"link set {inner} master {bridge}")
        undo.callback(ip, f"link del {outer}")
        ip(f"link set {outer} {quiet}", f"link set {port} {quiet}")
        await_running(port)
        # First this: with two ways to the bridge, what the host sends would arrive twice.
        ip(f"link set {inner} nomaster")
        wire = Wire(inner, outer, quality)
        undo.callback(wire.close)
        ip(f"link set {port} master {bridge}")
        undo.pop_all()
    return wire


def remove(number: int, wire: Wire, ip: Callable[..., object], *, bridge: str = "chaos") -> None:
    """Take the wire out again. If the host has gone, `ip` raises, and the wire has gone too."""
    wire.close()
    ip(f"link del w{number}", f"link set v{number} master {bridge}")


class _Direction:
    """Frames from one end to the other, in order. `due` is when the next one is to go."""

    def __init__(
        self, source: socket.socket, target: socket.socket, quality: Quality, seed: int, counts: memoryview[float]
    ) -> None:
        self._source, self._target, self._quality, self._counts = source, target, quality, counts
        self._chance = random.Random(seed)
        self._buffer = memoryview(bytearray(_LONGEST_FRAME))
        self._waiting: deque[tuple[float, float, bytes]] = deque()
        self._in_flight = 0
        self._free = 0.0  # when the slow link will have sent all it has

    @property
    def due(self) -> float:
        return self._waiting[0][0] if self._waiting else math.inf

    def take(self) -> None:
        """Read what has come."""
        for _ in range(_AT_A_TIME):
            try:
                frame = self._buffer[: self._source.recv_into(self._buffer)]
            except OSError:  # no more, or the interface is down
                break
            now = time.monotonic()
            packets, size = tally(frame)
            due = self._accept(size, now)
            if due is None:
                self._counts[_DROPPED] += packets
            elif due <= now and not self._waiting:
                self._send(frame, 0.0)
            else:
                self._waiting.append((due, now, bytes(frame)))
                self._in_flight += len(frame)
        told = self._source.getsockopt(_SOL_PACKET, _STATISTICS, 8)
        self._counts[_DROPPED] += struct.unpack("=II", told)[1]

    def give(self, now: float) -> None:
        """Send what is due."""
        while self._waiting and self.due <= now:
            _, arrived, frame = self._waiting.popleft()
            self._in_flight -= len(frame)
            self._send(frame, min(now, time.monotonic()) - arrived)

    def _accept(self, size: int, now: float) -> float | None:
        """When a frame that has come now is to go on; None if there is no room for it."""
        quality, due = self._quality, now
        if self._in_flight > IN_FLIGHT:
            return None
        if quality.rate is not None:
            waiting = (self._free - now) * quality.rate
            # What is longer than the queue passes when nothing else waits.
            if waiting > 0 and waiting + size > QUEUE:
                return None
            self._free = due = max(self._free, now) + size / quality.rate
        jitter = quality.jitter and self._chance.uniform(-quality.jitter, quality.jitter)
        return due + quality.delay + jitter

    def _send(self, frame: Bytes, held: float) -> None:
        pieces: Sequence[Bytes] = [frame]
        struck = 0
        if self._quality.corrupt:
            pieces, struck = damage(bytes(frame), self._quality.corrupt / 100, self._chance)
        is_data = carries_data(frame)
        for piece in pieces:
            packets, size = tally(piece)
            try:
                self._target.send(piece)
            except OSError:  # no room, or the interface is down
                self._counts[_DROPPED] += packets
                continue
            if is_data:
                self._counts[_PACKETS] += packets
                self._counts[_BYTES] += size
                self._counts[_HELD] += held * packets
        if is_data:
            self._counts[_CORRUPTED] += struck


def forward(
    inner: socket.socket, outer: socket.socket, ends: list[int], quality: Quality, counts: memoryview[float]
) -> None:
    """Carry frames both ways until one of `ends` is readable, and then at once those that wait."""
    awaited: list[socket.socket | int] = [inner, outer, *ends]
    directions = [
        _Direction(inner, outer, quality, 2 * quality.seed, counts),
        _Direction(outer, inner, quality, 2 * quality.seed + 1, counts),
    ]
    while True:
        due = min(direction.due for direction in directions)
        # Not epoll, whose time is in milliseconds.
        ready = select.select(awaited, [], [], max(0.0, min(due - time.monotonic(), _PAUSE)))[0]
        for direction in directions:
            direction.take()
            direction.give(time.monotonic())
        if any(end in ready for end in ends):
            break
    for direction in directions:
        direction.give(math.inf)


def _live(fds: list[int], quality: Quality, counts: memoryview[float]) -> NoReturn:
    """The main function of the forked process."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Whoever waits for the end of something that the caller has open must not wait for us.
        for fd in {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, *fds}:
            os.closerange(fd, fd + 1)
        for standard in (0, 1):
            os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), standard)
        inner, outer, control, caller = (os.dup(fd) for fd in fds)  # low numbers, for select
        forward(socket.socket(fileno=inner), socket.socket(fileno=outer), [control, caller], quality, counts)
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def await_running(name: str) -> None:
    """Wait until the kernel knows that the interface is up, half a second on a busy machine. A bridge that gets the
    interface earlier drops everything until then.
    """
    deadline = time.monotonic() + _PATIENCE
    request = struct.pack("16sH22x", name.encode(), 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asked:
        while not struct.unpack_from("H", fcntl.ioctl(asked, _GET_FLAGS, request), 16)[0] & _RUNNING:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} does not come up")
            time.sleep(0.001)


def _open(name: str) -> socket.socket:
    """A packet socket of an interface of this network namespace."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    try:
        opened.setsockopt(_SOL_PACKET, _VNET_HDR, 1)
        opened.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)  # what this namespace itself has to say
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            opened.setsockopt(socket.SOL_SOCKET, buffer, _BUFFER)
        opened.bind((name, _ALL_PROTOCOLS))
    except OSError as error:
        opened.close()
        error.filename = name
        raise
    return opened
