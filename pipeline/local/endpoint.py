"""A served stand-in as a test sees it: clients, environment, faults, clock."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import headrace

if TYPE_CHECKING:
    from boto3.session import Session

_SECONDS = 30.0
# The line that __main__ prints begins with this: a parent process waits for it.
READY = "headrace local is ready at "
# The second line of a stand-in with --tls.
READY_BY_TLS = "and by TLS at "


class LocalAws:
    """A running stand-in, which is reached by its endpoint, in this process or another."""

    def __init__(self, endpoint: str, region: str = "us-east-1", *, tls_endpoint: str | None = None) -> None:
        """Use a stand-in that is running. `tls_endpoint`: where it is reached by TLS, if it is."""
        self.endpoint = endpoint
        self.tls_endpoint = tls_endpoint
        self.region = region
        # The session is kept, since each new session reads the service models anew. Clients are made under a
        # lock, since making them isn't thread-safe.
        self._session: Session | None = None
        self._lock = Lock()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that point any AWS SDK to the stand-in: put them into os.environ or a child's
        environment."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str, *, region: str | None = None, **more: Any) -> Any:
        """Give a boto3 client of a service."""
        with self._lock:
            if self._session is None:
                self._session = _a_session()
            # The type stubs of `client` want the service as a literal.
            make: Any = self._session.client
            return make(service, region_name=region or self.region, endpoint_url=self.endpoint, **more)

    def inject(self, kind: str, **fields: Any) -> None:
        """Add a fault to the stand-in's answers: see faults.Fault."""
        self._ask("POST", "faults", {"kind": kind, **fields})

    def reads(self) -> list[dict[str, Any]]:
        """For each shard what its readers have asked for and got: see kinesis_limits.Reads."""
        counts: list[dict[str, Any]] = self._ask("GET", "reads")
        return counts

    def faults(self) -> list[dict[str, Any]]:
        """Give the list of planned faults, with how often each fault matched (`seen`) and was applied (`taken`)."""
        plan: list[dict[str, Any]] = self._ask("GET", "faults")
        return plan

    def clear_faults(self) -> None:
        """Remove all faults."""
        self._ask("DELETE", "faults")

    def limit(self, access_key: str, policy: Mapping[str, Any]) -> None:
        """Refuse a caller what this policy doesn't allow, and keep what the caller asks for."""
        self._ask("POST", "callers", {"access_key": access_key, "policy": policy})

    def asked(self) -> dict[str, set[tuple[str, str]]]:
        """Give for each caller with a policy the actions, each with its resource, that it has asked for."""
        described: dict[str, list[dict[str, str]]] = self._ask("GET", "callers")
        return {
            caller: {(one["action"], one["resource"]) for one in every} for caller, every in described.items()
        }

    def advance(self, seconds: float) -> None:
        """Move the stand-in's clock."""
        self._ask("POST", "clock", {"advance_seconds": seconds})

    def set_clock_off(self, seconds: float) -> None:
        """Set the stand-in's clock to some seconds before or after the host's."""
        self._ask("POST", "clock", {"offset_seconds": seconds})

    def now(self) -> float:
        """Give the stand-in's time."""
        return float(self._ask("GET", "clock")["now"])

    def cpu_seconds(self) -> float:
        """Give the CPU time that the stand-in's process has taken so far."""
        return float(self._ask("GET", "health")["cpu_seconds"])

    def reset(self) -> None:
        """Forget streams, tables, buckets, faults and the clock's offset."""
        self._ask("POST", "reset")

    def _ask(self, method: str, what: str, given: Mapping[str, Any] | None = None) -> Any:
        body = None if given is None else json.dumps(given).encode()
        request = Request(f"{self.endpoint}/_headrace/{what}", data=body, method=method)  # noqa: S310 (our own http)
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            return json.load(answer)


def _a_session() -> Session:
    # Imported here because boto3 takes a second, and pytest loads this module in every session.
    import boto3

    return boto3.session.Session(
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 (nothing checks it)
    )


@contextlib.contextmanager
def local_aws(*options: str) -> Iterator[LocalAws]:
    """Run a stand-in in a process of its own, on a free port, for as long as the context lasts.

    The stand-in ends when its standard input does, and so in any case when this process ends.
    """
    # The child process has to find Headrace's packages, also where they aren't installed.
    root = str(Path(headrace.__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    command = [sys.executable, "-m", "headrace.pipeline.local", "--port", "0", "--while-stdin", *options]
    with subprocess.Popen(  # noqa: S603 (our own module)
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if not line.startswith(READY):
                raise RuntimeError(f"the stand-in did not start; it said {line!r}")
            by_tls = process.stdout.readline() if process.stdout is not None and "--tls" in options else ""
            tls_endpoint = by_tls.removeprefix(READY_BY_TLS).strip() or None
            yield LocalAws(line.removeprefix(READY).split()[0], tls_endpoint=tls_endpoint)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS)
            # A stand-in that doesn't end by itself must not stop its parent from ending.
            process.kill()
