"""Ports at which servers listen, read from the kernel. contend does not connect: some servers serve only the first
connection.

Part of what a guest's agent is: Python 3.9, and nothing else of contend.
"""

from __future__ import annotations

_LISTEN = "0A"  # st of /proc/net/tcp: TCP_LISTEN
_LOOPBACK = "0100007F"  # 127.0.0.1, as the kernel of a little-endian machine writes it


def ports(table: str) -> set[int]:
    """TCP ports, out of /proc/net/tcp or tcp6, at which a client of this host or of another may be answered.

    Left out is what listens at another loopback address than 127.0.0.1: clients do not know it. Cassandra's nodes speak with
    each other there, at the same port, before they serve.

    >>> row = "   0: {}:1F90 00000000:0000 {} 00000000:00000000 00:00000000"
    >>> told = [row.format("0B10017F", "0A"), row.format("0100007F", "01"), row.format("00000000", "0A")]
    >>> [ports("  sl  local_address" + chr(10) + one) for one in told]
    [set(), set(), {8080}]
    """
    listening = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 4 or fields[3] != _LISTEN:
            continue
        address, _, port = fields[1].partition(":")
        # An IPv4 address within IPv6 is at its end; ::1 is no such.
        mapped = len(address) == 8 or address[:24] == "0000000000000000FFFF0000"
        if mapped and address.endswith("7F") and not address.endswith(_LOOPBACK):
            continue
        listening.add(int(port, 16))
    return listening
