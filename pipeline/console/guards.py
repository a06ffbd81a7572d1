"""Which requests a console answers, and the headers of each answer.

The console has no password: whoever reaches it sees names of workers and shards, and makes it ask AWS. So it listens on this
machine only, and answers only requests that were made to this machine by name. A page of another site, whose name an attacker
has let point to 127.0.0.1 (DNS rebinding), sends that other name and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from headrace.pipeline.errors import BadSetting

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
# Names of workers, streams and tables come from rows that other programs write. Should one of them
# get into the page as markup after all, it can run no script and reach no other host.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OWN_SITE: Final = frozenset({"same-origin", "none"})


def require_loopback(host: str, *, allowed: bool) -> None:
    """Raise an error where other machines could reach the console, unless the user has said that this is meant."""
    if host in LOOPBACK or allowed:
        return
    raise BadSetting(
        f"--host is {host!r}: the console has no password, and other machines would see the application and make this one "
        "ask AWS with its credentials. Nothing was started; leave --host out and reach the console through an SSH tunnel "
        "(ssh -L 3030:127.0.0.1:3030 HOST), or add --allow-other-hosts if something in front of it checks who asks"
    )


@dataclass(frozen=True, slots=True)
class ServedAs:
    """The host names by which a console may be requested, besides those of this machine."""

    names: frozenset[str] = frozenset()
    any_address: bool = False
    """Whether a request may name any IP address: an attacker's page can only bring a name."""

    def has(self, name: str) -> bool:
        return name in LOOPBACK | self.names or (self.any_address and _is_address(name))


THIS_MACHINE: Final = ServedAs()


def why_refused(host: str | None, site: str | None, served_as: ServedAs) -> str | None:
    """Why a request isn't answered; None where it is. `host`, `site`: its headers Host and Sec-Fetch-Site."""
    # Sec-Fetch-Site alone wouldn't do: to the browser, a page whose name points to 127.0.0.1 by now
    # is of the same origin.
    if not served_as.has(_name((host or "").lower())):
        return (
            "This console answers only requests to 127.0.0.1 or localhost. A request under another name may come from a "
            "page of another site (DNS rebinding), so it was refused. Open the address that the command has printed."
        )
    if site is not None and site not in _OWN_SITE:
        return "This console answers its own page only, and another site's page has asked. Open the address directly."
    return None


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        # An address of IPv6 has colons of its own, and so stands in brackets.
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
