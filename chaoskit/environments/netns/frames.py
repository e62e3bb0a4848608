"""Frames as packet sockets with PACKET_VNET_HDR pass them: a header that says what is still to be done, then Ethernet.

The kernel leaves checksums, and the cutting of long streams into packets, to the network card, and veth has none: what
one host sends reaches the other with both undone. So one frame may stand for dozens of packets (up to 64 KiB), each
with a checksum that is still to be filled in. To flip a bit so that the receiver notices, the packet has to be cut out
and given its checksum first. Standard library only.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass

Bytes = bytes | bytearray | memoryview

#: `struct virtio_net_hdr`: flags, kind of long frame, length of the headers, payload of each packet, and where the
#: checksum begins and, from there, belongs.
_HEADER = struct.Struct("=BBHHHH")
_NEEDS_CHECKSUM = 1
_SHORT = struct.Struct("!H")
_LONG = struct.Struct("!I")

_ETHERNET = _HEADER.size
_IP = _ETHERNET + 14
_IPV4, _IPV6 = 0x0800, 0x86DD
_TCP, _UDP = 6, 17
_FIN_PSH, _CWR = 0x09, 0x80
#: An IPv4 packet that is part of a larger one: more follow, or it is not the first.
_FRAGMENT = 0x3FFF


@dataclass(frozen=True)
class _Layout:
    """Where in a frame things begin: the header behind IP's, the payload and what is behind it. `each` is how much of
    the payload one packet takes."""

    version: int
    protocol: int
    transport: int
    payload: int
    end: int
    each: int

    @property
    def packets(self) -> int:
        return max(1, -(-(self.end - self.payload) // self.each)) if self.each else 1


def tally(frame: Bytes) -> tuple[int, int]:
    """How many packets the frame stands for, and how many bytes a wire would carry for them."""
    size = len(frame) - _ETHERNET
    if not frame[1]:
        return 1, size
    layout = _layout(frame)
    packets = layout.packets if layout else 1
    return packets, size + (packets - 1) * (layout.payload - _ETHERNET if layout else 0)


def carries_data(frame: Bytes) -> bool:
    """Whether it belongs to TCP or UDP, as all that a job sends, and not to the kernel's search for addresses."""
    kind = _SHORT.unpack_from(frame, _ETHERNET + 12)[0] if len(frame) >= _IP else 0
    at = {_IPV4: _IP + 9, _IPV6: _IP + 6}.get(kind)
    return at is not None and at < len(frame) and frame[at] in (_TCP, _UDP)


def damage(frame: bytes, share: float, chance: random.Random) -> tuple[Sequence[Bytes], int]:
    """The frame after each of its packets has met a flipped bit with probability `share`, in as many pieces as that
    takes, and how many were struck. A frame that is not of IP stays as it is."""
    layout = _layout(frame)
    if layout is None:
        return [frame], 0
    struck = [number for number in range(layout.packets) if chance.random() < share]
    pieces: list[Bytes] = []
    begin = 0
    for number in struck:
        if begin < number:
            pieces.append(_cut(frame, layout, begin, number))
        pieces.append(_flipped(_cut(frame, layout, number, number + 1), chance))
        begin = number + 1
    if begin < layout.packets:
        pieces.append(_cut(frame, layout, begin, layout.packets) if begin else frame)
    return pieces, len(struck)


def _layout(frame: Bytes) -> _Layout | None:
    """None of a frame that is not of IP, or not whole."""
    try:
        kind, each = _SHORT.unpack_from(frame, _ETHERNET + 12)[0], _HEADER.unpack_from(frame)[3]
        whole = True
        if kind == _IPV4:
            version, protocol, transport = 4, frame[_IP + 9], _IP + (frame[_IP] & 0x0F) * 4
            end = _IP + _SHORT.unpack_from(frame, _IP + 2)[0]
            whole = not _SHORT.unpack_from(frame, _IP + 6)[0] & _FRAGMENT
        elif kind == _IPV6:
            version, protocol, transport = 6, frame[_IP + 6], _IP + 40
            end = transport + _SHORT.unpack_from(frame, _IP + 4)[0]
        else:
            return None
        payload = end
        if whole and protocol == _TCP:
            payload = transport + (frame[transport + 12] >> 4) * 4
        elif whole and protocol == _UDP:
            payload = transport + 8
    except (struct.error, IndexError):
        return None
    if not _IP < transport <= payload <= end <= len(frame):
        return None
    long = frame[1] and whole and protocol in (_TCP, _UDP)
    return _Layout(version, protocol, transport, payload, end, each if long else 0)


def _cut(frame: bytes, layout: _Layout, first: int, last: int) -> bytearray:
    """Packets `first` up to `last`, without it, as a frame of their own: what a network card would make of them."""
    if not layout.each:
        return bytearray(frame)
    begin = layout.payload + first * layout.each
    end = min(layout.payload + last * layout.each, layout.end)
    piece = bytearray(frame[: layout.payload]) + frame[begin:end]
    flags, kind, _, each, start, offset = _HEADER.unpack_from(frame)
    if last - first == 1:
        kind = each = 0
    _HEADER.pack_into(piece, 0, flags, kind, layout.payload - _ETHERNET, each, start, offset)
    length = len(piece) - layout.transport
    # The sum so far is of the pseudo header, which holds the length.
    at = _ETHERNET + start + offset
    _put(piece, at, (_SHORT.unpack_from(piece, at)[0] + length - (layout.end - layout.transport)) % 0xFFFF)
    if layout.version == 4:
        _put(piece, _IP + 2, len(piece) - _IP)
        _put(piece, _IP + 4, (_SHORT.unpack_from(piece, _IP + 4)[0] + first) & 0xFFFF)
        _put(piece, _IP + 10, 0)
        _put(piece, _IP + 10, _checksum(piece[_IP : layout.transport]))
    else:
        _put(piece, _IP + 4, length)
    if layout.protocol == _UDP:
        _put(piece, layout.transport + 4, length)
        return piece
    sequence = _LONG.unpack_from(piece, layout.transport + 4)[0] + first * layout.each
    _LONG.pack_into(piece, layout.transport + 4, sequence & 0xFFFFFFFF)
    if first:
        piece[layout.transport + 13] &= ~_CWR
    if end < layout.end:
        piece[layout.transport + 13] &= ~_FIN_PSH
    return piece


def _flipped(packet: bytearray, chance: random.Random) -> bytearray:
    """One packet with its checksum filled in, and then one bit flipped: of its payload, or where it has none, of
    anything behind Ethernet."""
    flags, kind, length, each, start, offset = _HEADER.unpack_from(packet)
    if flags & _NEEDS_CHECKSUM:
        begin = _ETHERNET + start
        _put(packet, begin + offset, _checksum(packet[begin:]))
    _HEADER.pack_into(packet, 0, 0, kind, length, each, 0, 0)
    layout = _layout(packet)
    assert layout is not None
    begin = layout.payload if layout.payload < layout.end else _IP
    packet[chance.randrange(begin, layout.end)] ^= 1 << chance.randrange(8)
    return packet


def _checksum(data: Bytes) -> int:
    """The checksum of the internet: the ones' complement sum of 16 bits is the remainder modulo 65535. Never 0, which
    in UDP says that there is none."""
    return 0xFFFF - int.from_bytes(bytes(data) + b"\0" * (len(data) % 2)) % 0xFFFF


def _put(packet: bytearray, at: int, value: int) -> None:
    _SHORT.pack_into(packet, at, value)
