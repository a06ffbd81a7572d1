"""The heartbeats of Dagster's daemons, read from Dagster's storage: each daemon writes one every 30 seconds."""

from collections.abc import Mapping
from pathlib import Path

from dagster import DagsterInstance


def beats_in(dagster_home: Path) -> Mapping[str, float]:
    """The time of the newest heartbeat of each daemon, in seconds since 1970, by the daemon's id."""
    with DagsterInstance.from_config(str(dagster_home)) as instance:
        beats = tuple(instance.get_daemon_heartbeats().values())
    newest: dict[str, float] = {}
    for beat in beats:
        daemon = beat.daemon_id or beat.daemon_type
        # A daemon may have a row of a former process as well.
        newest[daemon] = max(beat.timestamp, newest.get(daemon, 0.0))
    return newest


def forget_beats(dagster_home: Path) -> None:
    """Remove the heartbeats of a daemon that was stopped, so that the next start needn't wait to see that it is
    gone."""
    with DagsterInstance.from_config(str(dagster_home)) as instance:
        instance.wipe_daemon_heartbeats()
