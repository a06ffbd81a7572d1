"""What an application's things are called in Dagster."""

import re
from difflib import get_close_matches

import dagster as dg

from pipeline.errors import Unknown
from pipeline.ports import LeaseStore
from pipeline.settings import Settings


def slug(text: str) -> str:
    """A name of Dagster's kind: letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


def records_key(settings: Settings) -> dg.AssetKey:
    return dg.AssetKey([slug(settings.application), "records"])


def partitions_name(settings: Settings) -> str:
    return f"{settings.application}_shards"


def require_known(keys: tuple[str, ...], leases: LeaseStore) -> None:
    """Refuse keys that have no lease row, and name the near ones."""
    unknown = [key for key in keys if leases.get(key) is None]
    if not unknown:
        return
    there = [row.key for row in leases.scan().leases]
    near = get_close_matches(unknown[0], there, n=3, cutoff=0.5) or sorted(there)[:3]
    told = (
        f"near it: {', '.join(near)}" if near else "no shard has a lease yet: the leader's sensor makes them"
    )
    raise Unknown(f"there is no shard {unknown[0]!r} ({told}); nothing was read")
