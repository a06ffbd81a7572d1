"""The setting `aws.client`: how AWS clients connect, as a list of botocore's option names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

# A user and a password are refused here, because no setting may hold a secret.
_PROXY = re.compile(r"https?://[^/@\s]+/?")
_FLAGS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class AwsNetwork:
    """Options of an AWS client's connections. None: the client's own default."""

    fips: bool | None = None
    dualstack: bool | None = None
    proxy: str | None = None
    connections: int | None = None
    connect_timeout: float | None = None
    """Seconds, as is `read_timeout`."""
    read_timeout: float | None = None

    def as_config(self) -> dict[str, Any]:
        """Arguments of botocore's Config, only for the options that the setting names."""
        # A name that the setting leaves out must not reach botocore's Config, where it would hide
        # what AWS's variables and files say.
        stated = {
            "use_fips_endpoint": self.fips,
            "use_dualstack_endpoint": self.dualstack,
            "proxies": {"http": self.proxy, "https": self.proxy} if self.proxy else None,
            "max_pool_connections": self.connections,
            "connect_timeout": self.connect_timeout,
            "read_timeout": self.read_timeout,
        }
        return {name: value for name, value in stated.items() if value is not None}


def _flag(text: str) -> bool:
    return _FLAGS[text.lower()]


def _proxy(text: str) -> str:
    if not _PROXY.fullmatch(text):
        raise ValueError(text)
    return text


def _within(kind: Callable[[str], float], least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = kind(text)
        if not least <= number <= most:
            raise ValueError(text)
        return number

    return read


# The list is closed and each value is checked. A timeout beyond a tick's time, or a name that
# botocore ignores, would fail silently, and an option such as `retries` would undo what waves count
# on.
_FIELDS: Final[dict[str, tuple[str, Callable[[str], Any], str]]] = {
    "use_fips_endpoint": ("fips", _flag, "true or false"),
    "use_dualstack_endpoint": ("dualstack", _flag, "true or false"),
    "proxies": ("proxy", _proxy, "http://host:port or https://host:port, without a user and a password"),
    "max_pool_connections": ("connections", _within(int, 1, 1000), "1 to 1000"),
    "connect_timeout": ("connect_timeout", _within(float, 0.1, 5), "0.1 to 5 (seconds)"),
    "read_timeout": ("read_timeout", _within(float, 1, 10), "1 to 10 (seconds)"),
}
"""botocore's name -> the field here, how its text is read, and what is allowed, in words."""


def network_of(client: Mapping[str, str]) -> AwsNetwork:
    """The options in the setting `aws.client`. Values that the rules refuse count as left out."""
    values: dict[str, Any] = {}
    for name, text in client.items():
        if name in _FIELDS and broken_value(name, text) is None:
            field, read, _ = _FIELDS[name]
            values[field] = read(text)
    return AwsNetwork(**values)


def broken_value(name: str, text: str) -> str | None:
    """Why this value of the option `name` isn't allowed; None where it is."""
    _, read, allowed = _FIELDS[name]
    try:
        read(text)
    except (KeyError, ValueError):
        return f"is not allowed for {name}; allowed: {allowed}"
    return None


def broken_names(client: Mapping[str, str]) -> Iterator[str]:
    for name in client:
        if name not in _FIELDS:
            yield f"has {name}; allowed: {', '.join(_FIELDS)}"
