"""Long frames are cut as a network card would cut them, and a flipped bit is always to be noticed."""

import random
import struct

import pytest

from chaoskit.environments.netns.frames import carries_data, damage, tally

MSS = 1000
ETHERNET = b"\2\0\0\0\0\1\2\0\0\0\0\2"
FIN_PSH_ACK_CWR = 0x01 | 0x08 | 0x10 | 0x80
TCP, UDP = 6, 17
WAYS = [(version, protocol) for version in (4, 6) for protocol in (TCP, UDP)]
PAYLOAD = random.Random(0).randbytes(9500)  # ten packets, the last of them short


def total(data):
    """Of 16 bits, in ones' complement, one after the other."""
    words = struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2))
    found = sum(words)
    while found >> 16:
        found = (found & 0xFFFF) + (found >> 16)
    return found


def pseudo(version, protocol, length):
    if version == 4:
        return bytes([10, 0, 0, 1, 10, 0, 0, 2, 0, protocol]) + struct.pack("!H", length)
    return bytes(range(32)) + struct.pack("!II", length, protocol)


def frame(version, protocol, payload=PAYLOAD, *, each=MSS, sequence=0xFFFFFF00):
    """As the kernel hands out what it has not yet cut: the checksum holds the sum of the pseudo header."""
    length = len(payload) + (20 if protocol == TCP else 8)
    begun = total(pseudo(version, protocol, length))
    if protocol == TCP:
        behind = struct.pack("!HHIIBBHHH", 1, 2, sequence, 7, 5 << 4, FIN_PSH_ACK_CWR, 100, begun, 0)
    else:
        behind = struct.pack("!HHHH", 1, 2, length, begun)
    if version == 4:
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0xFFFE, 0x4000, 64, protocol, 0)
        ip = ip + pseudo(4, protocol, 0)[:8]
        ip = ip[:10] + struct.pack("!H", 0xFFFF - total(ip)) + ip[12:]
        kind = 1 if protocol == TCP else 5
    else:
        ip = struct.pack("!IHBB", 6 << 28, length, protocol, 64) + bytes(range(32))
        kind = 4 if protocol == TCP else 5
    long = len(payload) > each
    start, offset = 14 + len(ip), 16 if protocol == TCP else 6
    header = struct.pack("=BBHHHH", 1, kind if long else 0, 60, each if long else 0, start, offset)
    return header + ETHERNET + struct.pack("!H", 0x0800 if version == 4 else 0x86DD) + ip + behind + payload


def parts(piece, version, protocol):
    """The headers of IP and behind it, and the payload, of a frame that is consistent in its lengths."""
    piece = bytes(piece)
    begin = 24 + (20 if version == 4 else 40)
    length = struct.unpack_from("!H", piece, 26 if version == 4 else 28)[0] - (20 if version == 4 else 0)
    assert length == len(piece) - begin
    if protocol == UDP:
        assert struct.unpack_from("!H", piece, begin + 4)[0] == length
    end = begin + (20 if protocol == TCP else 8)
    return piece[24:begin], piece[begin:end], piece[end:]


def is_valid(piece, version, protocol):
    """Whether the receiver takes it for whole: its checksum is right, or yet to be filled in from a right sum."""
    ip, behind, payload = parts(piece, version, protocol)
    if version == 4 and total(ip) != 0xFFFF:
        return False
    length = len(behind) + len(payload)
    if piece[0]:
        at = 16 if protocol == TCP else 6
        return (
            struct.unpack_from("!H", behind, at)[0] % 0xFFFF == total(pseudo(version, protocol, length)) % 0xFFFF
        )
    return total(pseudo(version, protocol, length) + behind + payload) == 0xFFFF


@pytest.mark.parametrize(("version", "protocol"), WAYS)
def test_the_pieces_of_a_long_frame_are_what_was_sent(version, protocol):
    whole = frame(version, protocol)
    pieces, struck = damage(whole, 0.3, random.Random(4))
    damaged = [piece for piece in pieces if not is_valid(piece, version, protocol)]
    assert len(damaged) == struck and 0 < struck < len(pieces)
    at = 0
    for piece in pieces:
        ip, behind, payload = parts(piece, version, protocol)
        flips = sum((a ^ b).bit_count() for a, b in zip(payload, PAYLOAD[at:], strict=False))
        assert flips == (piece in damaged)
        assert is_valid(bytes(piece[: -len(payload)]) + PAYLOAD[at : at + len(payload)], version, protocol)
        if version == 4:
            assert struct.unpack_from("!H", ip, 4)[0] == (0xFFFE + at // MSS) & 0xFFFF
        if protocol == TCP:
            assert struct.unpack_from("!I", behind, 4)[0] == (0xFFFFFF00 + at) & 0xFFFFFFFF
            first, last = at == 0, at + len(payload) == len(PAYLOAD)
            assert behind[13] == 0x10 | (0x80 if first else 0) | (0x09 if last else 0)
        at += len(payload)
        packets = -(-len(payload) // MSS)
        assert tally(piece)[0] == packets
        # A piece of one packet asks for nothing to be cut.
        assert (piece[1], struct.unpack_from("=H", piece, 4)[0]) == ((whole[1], MSS) if packets > 1 else (0, 0))
    assert at == len(PAYLOAD)
    assert sum(tally(piece)[1] for piece in pieces) == tally(whole)[1]


@pytest.mark.parametrize(("version", "protocol"), WAYS)
@pytest.mark.parametrize("size", [1, 2, 999])
def test_a_flipped_bit_is_noticed_wherever_it_is(version, protocol, size):
    whole = frame(version, protocol, PAYLOAD[:size])
    assert is_valid(whole, version, protocol)
    for seed in range(50):
        (piece,), struck = damage(whole, 1.0, random.Random(seed))
        assert struck == 1 and piece[:2] == bytes(2)
        assert not is_valid(piece, version, protocol)
        assert is_valid(bytes(piece[:-size]) + whole[-size:], version, protocol)
        behind = 44 if version == 4 else 64
        assert piece[24:behind] == whole[24:behind] and piece[-size:] != whole[-size:]


def test_without_payload_anything_behind_ethernet_is_struck():
    whole = frame(4, TCP, b"")
    struck = set()
    for seed in range(500):
        (piece,), _ = damage(whole, 1.0, random.Random(seed))
        assert piece[:24] == bytes(2) + piece[2:10] + whole[10:24]
        struck |= {at for at in range(24, len(whole)) if piece[at] != whole[at] and at not in (60, 61)}
    assert min(struck) < 30 and max(struck) > 55


def test_nothing_is_done_to_what_is_not_struck():
    for whole in (frame(4, TCP), frame(6, UDP, b"short")):
        assert damage(whole, 0.0, random.Random(1)) == ([whole], 0)


def test_a_seed_chooses_the_bits():
    once, twice, other = (damage(frame(4, TCP), 0.5, random.Random(seed)) for seed in (1, 1, 2))
    assert once == twice != other


@pytest.mark.parametrize(
    "whole",
    [
        bytes(10) + ETHERNET + b"\x08\x06" + bytes(28),  # ARP
        bytes(10) + ETHERNET + b"\x88\xcc" + bytes(40),
        bytes(10) + ETHERNET,
        bytes(10) + ETHERNET + b"\x08\x00" + bytes(5),
        bytes(10) + ETHERNET + b"\x08\x00" + bytes(60),
        frame(4, TCP)[:70],
        frame(6, TCP)[:60],
    ],
)
def test_what_is_not_of_ip_or_not_whole_stays_as_it_is(whole):
    assert damage(whole, 1.0, random.Random(1)) == ([whole], 0)
    assert tally(whole) == (1, len(whole) - 10)


@pytest.mark.parametrize(("version", "protocol"), WAYS)
def test_tcp_and_udp_carry_data_and_nothing_else_does(version, protocol):
    assert carries_data(frame(version, protocol))
    other = bytearray(frame(version, protocol))
    other[24 + (9 if version == 4 else 6)] = 58  # ICMPv6, with which IPv6 looks for addresses
    assert not carries_data(other)
    assert not carries_data(bytes(10) + ETHERNET + b"\x08\x06" + bytes(28))  # ARP
    assert not carries_data(bytes(10) + ETHERNET + b"\x08\x00")
    assert not carries_data(bytes(5))


def test_a_fragment_is_struck_behind_ethernet():
    whole = bytearray(frame(4, UDP, b"x" * 100))
    whole[0] = 0
    struct.pack_into("!H", whole, 30, 0x2000)
    (piece,), struck = damage(bytes(whole), 1.0, random.Random(1))
    assert struck == 1
    assert sum((a ^ b).bit_count() for a, b in zip(piece[10:], whole[10:], strict=True)) == 1
