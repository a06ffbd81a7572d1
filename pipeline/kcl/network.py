"""Network traffic as KCL's optional metrics count it, from the text of /proc/net/dev."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

MIB = 1024 * 1024
# The column with the bytes sent. Column 0 has the bytes received.
_SENT = 8


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes received and sent since the network interface came up."""

    received: int
    sent: int


def traffic(net_dev: str, interface: str) -> Traffic:
    for line in net_dev.splitlines():
        name, colon, columns = line.partition(":")
        if colon and name.strip() == interface:
            numbers = columns.split()
            return Traffic(int(numbers[0]), int(numbers[_SENT]))
    raise ValueError(f"/proc/net/dev has no interface {interface}")


def rate(before: int, after: int, span: timedelta) -> float:
    """The MiB per second between two counts of bytes."""
    return (after - before) / MIB / span.total_seconds()


def utilisation(mib_per_second: float, most: float) -> float:
    """The traffic in percent of the bandwidth `most`, at most 100."""
    return min(100.0, mib_per_second / most * 100)
