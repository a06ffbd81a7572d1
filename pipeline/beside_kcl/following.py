"""`kcl.mode: migrating`: workers follow the row `Migration3.0`, as KCL's workers do with
CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X.

    the row says                       | the mode of this tick | within two minutes after a change of the mode
    -----------------------------------+-----------------------+------------------------------------------------
    no row, INIT, UPGRADE_FROM_2X, 2X  | 2.x                   | nothing is taken
    3X_WITH_ROLLBACK, 3X               | own                   | nothing is assigned

Each tick reads the row, and so follows a change within one tick. KCL's workers read it once a minute, 90 s after
the change at the latest. So for two minutes after a change Headrace neither takes nor assigns leases: no slow
worker takes leases while a leader of Headrace assigns them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import Tables
from headrace.pipeline.settings.choices import Mode
from headrace.pipeline.settings.model import Settings

SETTLES: Final = timedelta(minutes=2)
"""KCL's workers look at the row 90 s after a change at the latest, and clocks may differ by half a minute."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The mode in which a worker works, by KCL's migration row, and why it waits after a change."""

    mode: Mode
    settling: str = ""
    """Why leases are neither taken nor assigned; empty where they may be."""


def followed(settings: Settings, tables: Tables, clock: Clock) -> Followed:
    if settings.kcl.mode is not Mode.MIGRATING:
        return Followed(settings.kcl.mode)
    # Read at each tick and not kept: a worker that takes leases for a minute longer than the others
    # moves leases that a leader has just assigned.
    agreed = tables.agreed_version()
    if agreed is None:
        return Followed(Mode.KCL_2)
    mode = Mode.KCL_2 if agreed.acts_as_2x else Mode.OWN
    left = timedelta(0) if agreed.since is None else SETTLES - (clock.now() - agreed.since)
    if left <= timedelta(0):
        return Followed(mode)
    return Followed(
        mode,
        f"the migration went to {agreed.version} less than two minutes ago: until all workers have seen it, for "
        f"{left.total_seconds():.0f} s, Headrace neither takes nor assigns leases",
    )


def as_followed(settings: Settings, mode: Mode) -> Settings:
    # Each tick asks, and only while a fleet migrates the mode is another one.
    return settings if settings.kcl.mode is mode else replace(settings, kcl=replace(settings.kcl, mode=mode))
