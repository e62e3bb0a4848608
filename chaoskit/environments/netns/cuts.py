"""`InstalledCut`: packets that are stopped between nodes, and the nftables rules that stop and count them.

Standard library only: it lives in the process that runs the network of the hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Our own datagrams go to this port; what they meet is not counted as the job's.
PING_PORT = 7177

#: What names a TCP connection at the end that it comes to.
_FLOW = "ip saddr . tcp sport . tcp dport"


@dataclass(frozen=True)
class InstalledCut:
    """See `CanPartition.cut`."""

    ways: tuple[tuple[str, str], ...]
    how: str
    percent: float


def rules(table: str, cut: InstalledCut, sources: Mapping[str, str]) -> list[str]:
    """The lines that make the table of a cut at one target; `sources` are addresses by name."""
    lines = [f"add table inet {table}"]
    lines.append(f"add chain inet {table} entry {{ type filter hook input priority 0; }}")
    if cut.how == "reset":
        lines.append(f"add set inet {table} begun {{ typeof {_FLOW}; size 65535; flags dynamic; }}")
    share = "" if cut.percent >= 100 else f"numgen random mod 100000 < {round(cut.percent * 1000)} "
    for name, address in sources.items():
        counter, packet = f"from_{name}", f"ip saddr {address}"
        lines.append(f"add counter inet {table} {counter}")
        rule = f"add rule inet {table} entry {packet}"
        if cut.how == "reset":
            # What has begun since is known by its SYN, at both ends of it, and goes on.
            lines.append(f"{rule} tcp flags & (syn | rst) == syn add @begun {{ {_FLOW} }} accept")
            lines.append(f"{rule} {_FLOW} @begun accept")
            lines.append(f"{rule} tcp flags & rst == 0x0 counter name {counter} reject with tcp reset")
        else:
            # Ours, and what kernels say of it, is not counted; nor does it take its chance twice.
            for own in (f"udp dport {PING_PORT}", "ip protocol icmp"):
                lines += [f"{rule} {own} {verdict}" for verdict in (f"{share}drop", "accept")]
            lines.append(f"{rule} {share}counter name {counter} drop")
    return lines


def table_of(number: int) -> str:
    """The name of the table of a cut."""
    return f"cut_{number}"
