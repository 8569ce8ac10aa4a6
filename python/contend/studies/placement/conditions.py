"""Words for the routes of a placement study, and for what is sent over them."""

from __future__ import annotations


def route_words(host: str, subnet: str, encapsulation: str) -> str:
    """
    >>> route_words("same", "different", "none"), route_words("different", "same", "vxlan")
    ('same host, different subnet', 'different host, same subnet, vxlan')
    """
    return f"{host} host, {subnet} subnet" + (f", {encapsulation}" if encapsulation != "none" else "")


def condition_words(protocol: str, message: int, pairs: int) -> str:
    """
    >>> condition_words("tcp", 1400, 1), condition_words("udp", 16384, 4)
    ('TCP, 1400 B, 1 pair', 'UDP, 16384 B, 4 pairs')
    """
    return f"{protocol.upper()}, {message} B, {pairs} pair{'s' if pairs != 1 else ''}"
