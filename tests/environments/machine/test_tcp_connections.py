"""The parsers of what the kernel says of TCP: every connection, and no exception for whatever else there may be."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.environments.machine import tcp_connections, tcp_retransmissions
from chaoskit.environments.machine.tcp_connections import (
    COUNTERS,
    LISTEN,
    TcpConnection,
    counters,
    end,
    parsed,
    rise,
    same_address,
    sent_again,
    unanswered,
)

HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
#: As a kernel wrote it, on a little-endian machine.
REAL = """   0: 0100007F:A6E7 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1115485 1 00 100 0
   1: 0100000A:8F0E 0200000A:1F90 01 000003E8:00000000 01:0000001A 00000004     0        2 77 3 00 100 0 0 10 4
"""
REAL6 = (
    "   0: 000000FD000000000000000001000000:8F0E 000000FD000000000000000002000000:1F90 01 00000000:00000000 "
    "00:00000000 00000000  1000        0 78 1 0000000000000000 20 4 30 10 -1\n"
)
addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6).filter(lambda one: one.ipv4_mapped is None))
numbers = st.integers(0, 2**32 - 1)
connections = st.builds(
    TcpConnection,
    local=addresses.map(str), local_port=st.integers(0, 65535), remote=addresses.map(str),
    remote_port=st.integers(0, 65535), state=st.integers(1, 12), unacknowledged=numbers, retries=numbers,
    probes=numbers, inode=numbers,
)  # fmt: skip


def hexadecimal(address, port):
    packed = ipaddress.ip_address(address).packed
    words = [int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def rendered(one, number):
    """As `get_tcp4_sock` of the kernel prints it."""
    local, remote = hexadecimal(one.local, one.local_port), hexadecimal(one.remote, one.remote_port)
    return (
        f"{number:4d}: {local} {remote} {one.state:02X} {one.unacknowledged:08X}:00000000 01:0000001A "
        f"{one.retries:08X} {1000:5d} {one.probes:8d} {one.inode} 1 0000000000000000 20 4 30 10 -1\n"
    )


@given(st.lists(connections))
def test_what_a_kernel_prints_is_read(known):
    assert parsed(HEADING + "".join(map(rendered, known, range(len(known))))) == tuple(known)


@given(st.text())
def test_anything_else_is_no_connection(text):
    parsed(text)
    parsed(f"0: {text}")
    counters(text, text)


@pytest.mark.skipif(sys.byteorder != "little", reason="the example is of a little-endian machine")
def test_real_lines():
    listening, sending = parsed(HEADING + REAL)
    assert (listening.state, listening.local, listening.local_port) == (LISTEN, "127.0.0.1", 42727)
    assert (sending.remote, sending.remote_port, sending.unacknowledged) == ("10.0.0.2", 8080, 1000)
    assert (sending.retries, sending.probes, sending.unanswered) == (4, 2, 6)
    (one,) = parsed(REAL6)
    assert (one.local, one.remote) == ("fd00::1", "fd00::2")
    assert end("0000000000000000FFFF00000100000A:0016") == ("10.0.0.1", 22)


@pytest.mark.parametrize("text", ["", "0100007F", "0100007F:1", "01:1F90", "0100007G:1F90"])
def test_ends_that_are_none(text):
    with pytest.raises(ValueError):
        end(text)


def test_addresses_are_compared_as_they_are_written_here():
    assert same_address("::ffff:10.0.0.1") == "10.0.0.1" and same_address("FD00:0::1") == "fd00::1"
    for wrong in ("", "node0", "10.0.0", "::g"):
        with pytest.raises(ValueError, match="no address"):
            same_address(wrong)


@given(st.dictionaries(st.sampled_from([f"{g}.{n}" for g, names in COUNTERS.items() for n in names]), st.integers(0)))
def test_counters_are_read_by_their_names(wanted):
    text = ""
    for group in COUNTERS:
        mine = {name.partition(".")[2]: value for name, value in wanted.items() if name.startswith(f"{group}.")}
        text += f"{group}: RtoMin {' '.join(mine)}\n{group}: 200 {' '.join(map(str, mine.values()))}\n"
    assert counters(text) == wanted


ONE = TcpConnection("10.0.0.1", 40000, "10.0.0.2", 8080, 1, 1000, retries=3, probes=0, inode=77)


def test_only_what_came_since_counts_and_only_to_that_address():
    before = [ONE, replace(ONE, remote="10.0.0.3", inode=78)]
    now = [replace(ONE, retries=4, probes=1), replace(before[1], retries=9)]
    assert unanswered(before, now, "10.0.0.2") == 2 and unanswered(before, now, "10.0.0.3") == 6
    assert unanswered(before, before, "10.0.0.2") == 0 == unanswered(before, [], "10.0.0.2")
    assert unanswered([], now, "10.0.0.2") == 5
    assert unanswered(before, [replace(ONE, retries=0)], "10.0.0.2") == 0
    assert unanswered(before, [replace(ONE, retries=2, inode=99)], "10.0.0.2") == 2
    assert unanswered([], [replace(ONE, state=LISTEN)], "10.0.0.2") == 0


def test_segments_that_were_sent_again():
    had, now = replace(ONE, retransmitted=10), replace(ONE, retransmitted=14)
    assert sent_again([had], [now], "10.0.0.2") == 4 and sent_again([had], [now], "10.0.0.3") == 0
    assert sent_again([], [now], "10.0.0.2") == 14 == sent_again([replace(had, inode=5)], [now], "10.0.0.2")
    assert sent_again([ONE], [ONE], "10.0.0.2") == 0


@given(st.lists(connections), st.lists(connections), addresses.map(str))
def test_counts_are_never_negative(before, now, remote):
    assert unanswered(before, now, remote) >= 0 and sent_again(before, now, remote) >= 0


def test_a_rise():
    assert rise({"a": 5}, {"a": 7, "b": 3}, "a", "b") == 5 and rise({"a": 5}, {"a": 1}, "a") == 0


@given(st.binary())
def test_netlink_answers_of_any_form_end(data):
    try:
        for _, body in tcp_retransmissions.messages(data):
            tcp_retransmissions.diagnosis(body)
    except ValueError:
        pass
    tcp_retransmissions.diagnosis(b"\0" * 72 + data)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_diagnosis(inode, again, microseconds):
    info = bytearray(232)
    struct.pack_into("=I", info, 68, microseconds)
    struct.pack_into("=I", info, 100, again)
    other = struct.pack("=HH5s3x", 9, 8, b"cubic")
    body = b"\0" * 68 + struct.pack("=I", inode) + other + struct.pack("=HH", 4 + len(info), 2) + info
    assert tcp_retransmissions.diagnosis(body) == (inode, (again, microseconds / 1e6))
    assert tcp_retransmissions.diagnosis(body[:76]) is None


def test_this_machine():
    with socket.create_server(("127.0.0.1", 0)) as ear, socket.create_connection(ear.getsockname()) as here:
        told = tcp_retransmissions.felt()
        mine = [one for one in told["connections"] if one["local_port"] == here.getsockname()[1]]
        assert [(one["remote"], one["remote_port"]) for one in mine] == [ear.getsockname()]
        assert told["counters"]["Tcp.OutSegs"] > 0 and tcp_connections.CHECKSUMS[0] in told["counters"]


def test_without_netlink_the_files_remain(monkeypatch):
    def refused():
        raise OSError(1, "not permitted")

    monkeypatch.setattr(tcp_retransmissions, "diagnosed", refused)
    assert all(one["retransmitted"] is None for one in tcp_retransmissions.felt()["connections"])
