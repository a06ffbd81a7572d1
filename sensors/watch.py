"""The sensor that watches the application: each minute it reads the lease rows and the tables' metadata, and
writes to Dagster what has changed.

    checks          an evaluation where a check has changed, where a new run has changed its table, each hour while it
                    fails, and each six hours; where nobody can look, one that says so
    observations    lag, rate and shards of each stream, each five minutes while something moves, else each hour
    hours           a materialization of each hour of which the lake table has all records

It asks for no run and starts no Spark. How many events it writes depends on the time, not on the number of records.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import dagster as dg

from headrace.assets.checks import check_now
from headrace.assets.names import hours_key, slug
from headrace.assets.observations import observations
from headrace.assets.outside import hours_of
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.checking.hours import HoursTold, floor, hours_to_tell
from headrace.pipeline.checking.judge import verdicts
from headrace.pipeline.checking.lag import longest_lag
from headrace.pipeline.checking.lateness import told_lag
from headrace.pipeline.checking.look import CheckLook
from headrace.pipeline.checking.looking import CheckLooking
from headrace.pipeline.checking.verdict import Verdict
from headrace.pipeline.core.landing.valid_through import overall
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.fleet.sensor_turn import without_tables
from headrace.pipeline.errors import HeadraceError, TablesMissing
from headrace.resources.instance import KeptInstance
from headrace.sensors.interval import interval
from headrace.sensors.results import state_of_cursor, with_sentence
from headrace.sensors.told_checks import ToldChecks

EVERY = timedelta(minutes=1)
_MOVING, _AT_REST = timedelta(minutes=5), timedelta(hours=1)
_LONGEST_RETENTION = timedelta(days=365)

Event = dg.AssetMaterialization | dg.AssetObservation


def build_watch(wiring: Wiring, kept_instance: KeptInstance) -> dg.SensorDefinition:
    watching = _Watching(wiring)

    @dg.sensor(
        name=f"{slug(wiring.settings.application)}_watch",
        minimum_interval_seconds=interval(EVERY),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Looks each minute at the shards and the tables, and leaves the results of the checks, the "
        "observations of the streams, and the hours that are complete.",
    )
    def watch(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        instance = kept_instance.of(context).instance
        try:
            events, sentence, cursor = watching.tick(instance, state_of_cursor(context.cursor))
        except Exception as error:
            # Whatever the reason is: a check that held mustn't stay so in Dagster while nobody looks.
            is_unknown = watching.told.could_not_look(error, instance)
            if not isinstance(error, HeadraceError):
                raise
            sentence = (
                f"watch: {without_tables(wiring.settings, error)}"
                if isinstance(error, TablesMissing) and not is_unknown
                else f"watch: nothing was checked: {error}"
            )
            cursor = with_sentence(state_of_cursor(context.cursor), sentence)
            return dg.SensorResult(skip_reason=sentence, cursor=cursor)
        return dg.SensorResult(
            skip_reason=sentence, cursor=with_sentence(cursor, sentence), asset_events=events
        )

    return watch


@dataclass(slots=True)
class _Watching:
    """What the sensor remembers in this process. Losing it costs a round of events."""

    wiring: Wiring
    looking: CheckLooking = field(init=False)
    told: ToldChecks = field(init=False)
    _observed_at: float = float("-inf")
    _snapshot: int | None = None
    """The snapshot of the lake table at the last observation."""

    def __post_init__(self) -> None:
        self.looking = CheckLooking(self.wiring.settings, self.wiring.ports.clock)
        self.told = ToldChecks(self.wiring.settings, self.wiring.ports.clock)

    def tick(self, instance: dg.DagsterInstance, cursor: str | None) -> tuple[list[Event], str, str | None]:
        settings = self.wiring.settings
        look = check_now(self.wiring, self.looking, instance)
        found = verdicts(look, settings.dagster.checks, settings.upkeep, self.looking.lags_before)
        self.told.looked(found, instance)
        events: list[Event] = []
        if self._is_time_to_observe(look):
            events += observations(settings, look)
        hours, cursor = self._hours(look, instance, cursor)
        events += hours
        return events, _sentence(look, found, hours), cursor

    def _is_time_to_observe(self, look: CheckLook) -> bool:
        snapshot = None if look.facts is None else look.facts.snapshot
        every = _MOVING if snapshot != self._snapshot or not longest_lag(look).is_nothing else _AT_REST
        now = self.wiring.ports.clock.monotonic()
        if now - self._observed_at < every.total_seconds():
            return False
        self._observed_at, self._snapshot = now, snapshot
        return True

    def _hours(
        self, look: CheckLook, instance: dg.DagsterInstance, cursor: str | None
    ) -> tuple[list[Event], str | None]:
        partitions = hours_of(self.wiring.settings)
        if partitions is None:
            return [], None
        key, since = hours_key(self.wiring.settings), partitions.start
        told = _read(cursor) or _told_before(instance, key, since)
        retention = max(look.retention.values(), default=_LONGEST_RETENTION)
        told, begins = hours_to_tell(
            told,
            since=since,
            through=overall(look.through, look.positions),
            moved=look.chains.moved,
            oldest=look.at - retention,
        )
        name = self.wiring.settings.landing.table
        events = [
            dg.AssetMaterialization(
                key, partition=begin.strftime(partitions.fmt), metadata={"table": dg.MetadataValue.text(name)}
            )
            for begin in begins
        ]
        return list(events), json.dumps(
            {"upto": told.upto.isoformat(timespec="minutes"), "moved": told.moved}
        )


def _read(cursor: str | None) -> HoursTold | None:
    try:
        values = json.loads(cursor or "")
        return HoursTold(datetime.fromisoformat(values["upto"]), int(values["moved"]))
    except (KeyError, TypeError, ValueError):
        return None


def _told_before(instance: dg.DagsterInstance, key: dg.AssetKey, since: datetime) -> HoursTold:
    """A sensor without a cursor, such as after a person has reset it, goes on after the newest hour that Dagster has."""
    newest = max(instance.get_materialized_partitions(key), default=None)
    if newest is None:
        return HoursTold(floor(since))
    return HoursTold(datetime.strptime(newest, "%Y-%m-%d-%H:%M").replace(tzinfo=UTC) + timedelta(hours=1))


def _sentence(look: CheckLook, found: tuple[Verdict, ...], hours: list[Event]) -> str:
    return "; ".join(_parts(look, found, hours))


def _parts(look: CheckLook, found: tuple[Verdict, ...], hours: list[Event]) -> Iterator[str]:
    failing = [verdict for verdict in found if not verdict.holds]
    if failing:
        first = max(failing, key=lambda verdict: verdict.is_grave)
        # The check comes first: of a cursor, Dagster's list of ticks shows the first twenty letters.
        yield f"watch: {first.check} fails: {first.sentence}"
        yield f"{len(found) - len(failing)} of {len(found)} checks hold"
    else:
        yield f"watch: all {len(found)} checks hold"
    yield told_lag(longest_lag(look))
    through = overall(look.through, look.positions)
    if through is not None:
        yield f"the table is complete up to {through:%Y-%m-%d %H:%M} UTC"
    if hours:
        yield f"{counted(len(hours), 'hour')} reported as complete"
