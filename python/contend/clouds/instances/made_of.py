"""Parts of instances besides image and flavour: who may reach them, and what is installed in them when asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TOOLS = ("iperf3", "python3")
"""Programs that an end of a pair needs; packages are called as they are."""


def user_data(tools: Sequence[str]) -> str:
    """For cloud-init, which most distributions' images have.

    >>> user_data(["fio"])
    '#cloud-config\\npackage_update: true\\npackages: [fio]\\n'
    """
    return f"#cloud-config\npackage_update: true\npackages: [{', '.join(tools)}]\n"


def rules() -> tuple[dict[str, Any], ...]:
    """Rules of the security group: SSH and ping from anywhere; for the empty one, anything from another of the group."""
    return (
        {"protocol": "tcp", "port_range_min": 22, "port_range_max": 22},
        {"protocol": "icmp"},
        {},
    )
