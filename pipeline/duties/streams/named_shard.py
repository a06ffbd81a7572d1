"""Finds the shard that a person names: by its lease key, its name in Dagster, or as much of the name as is unique."""

from __future__ import annotations

from headrace.pipeline.core.shards.partition import lease_key_of, meant_by, partition_of
from headrace.pipeline.core.words.words import no_such_shard
from headrace.pipeline.errors import Unknown
from headrace.pipeline.ports.leases import LeaseStore


def lease_key_meant(text: str, leases: LeaseStore, *, only_stream: str | None, nothing: str) -> str:
    """The lease key of the shard that a person names. Raises Unknown, with similar names, where no shard or more
    than one fits. `only_stream`: the stream of an application that reads one. `nothing`: the part of the message
    that says what the command hasn't done.
    """
    # By key first, which is one read. The names of all shards cost a scan of the lease table.
    exact = lease_key_of(text)
    if exact and leases.get(exact) is not None:
        return exact
    keys = [row.key for row in leases.scan().leases]
    meant = meant_by(text, keys, only_stream=only_stream)
    if len(meant) == 1:
        return meant[0]
    if meant:
        names = ", ".join(sorted(map(partition_of, meant)))
        raise Unknown(f"several shards are called {text!r} ({names}): give the whole name of one; {nothing}")
    raise no_lease(text, leases, nothing=nothing)


def no_lease(name: str, leases: LeaseStore, *, nothing: str) -> Unknown:
    """The error about a shard that has no lease row, with similar names."""
    names = [partition_of(row.key) for row in leases.scan().leases]
    return Unknown(no_such_shard(name, names, nothing=nothing))
