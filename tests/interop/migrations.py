"""`headrace migrate` in fleets of real KCL workers and Headrace's: from 2.x to 3.x and back, and from three tables to one.

The commands wait for ten minutes and for an hour between two steps. A scenario doesn't: it sets the time of the row back by hand, which
no worker of KCL notices, because KCL's own writes of the row depend on its state only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.eventually import eventually
from tests.interop.commands import adopt_live, empty_lake, headrace, settings_beside
from tests.interop.overlaps import Cause
from tests.interop.scene import A_BATCH, A_WAVE, APP, REBALANCE, START, CommandFailed, Scene, Stage, scene

_COMPATIBLE = "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X"
_VERSION, _STATUS, _LOCK = "Migration3.0", "TableMigration3.5", "Leader"
_STATE_TABLE = f"{APP}-CoordinatorState"
_TEN_MINUTES, _AN_HOUR = 600, 3600
_READY_WITHIN = 420.0
"""Seconds for workers to report, and for the leases of a stopped worker to get a living owner."""


def to_3x(stage: Stage) -> int:
    """Headrace and KCL 3.5.1 share leases as 2.x. `headrace migrate` takes the fleet to 3.x, where leases of children are
    assigned, and back, where they are taken."""
    with scene("migrate to 3.x", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start("k1", "3.5.1", coordinator__clientVersionConfig=_COMPATIBLE)
            play.await_readers(START, "k1")
            eventually(lambda: len(play.seen()) > 100, "KCL has read a hundred records", within=START)
            adopt_live(play, lake, mode="migrating")
            config = settings_beside(play, lake, mode="migrating")
            play.fleet.start_ours("h1", lake.home, mode="migrating")
            play.await_readers(REBALANCE, "k1", "h1")
            _refuses(play, config, "start", "3.x", because="to go")
            _age(play, APP, _VERSION, _TEN_MINUTES)
            _step(play, config, "start", "3.x")
            play.check(
                _state(play, APP, _VERSION) == "3X_WITH_ROLLBACK", "a leader assigns the leases from here on"
            )
            eventually(lambda: _row(play, APP, _LOCK), "a worker leads by the lock", within=_READY_WITHIN)
            play.traffic.split(play.shards_of("h1")[0])
            play.await_reshard()
            play.await_readers(REBALANCE + 120, "k1", "h1")
            _step(play, config, "rollback")
            play.check(_state(play, APP, _VERSION) == "2X", "workers take the leases again")
            play.traffic.split(play.shards_of("k1")[0])
            play.await_reshard()
            play.await_readers(REBALANCE + 120, "k1", "h1")
            _step(play, config, "roll-forward")
            play.check(_state(play, APP, _VERSION) == "UPGRADE_FROM_2X", "the migration begins again")
        play.finish(lake, both={Cause.KCL_CUT_OFF: 2 * A_BATCH, Cause.OURS_CUT_OFF: 2 * A_WAVE})
        return play.fails


def to_one_table(stage: Stage) -> int:
    """Headrace's worker leads three tables beside KCL 3.4.2, which is replaced by 3.5.1. `headrace migrate` moves the
    application into one table while both read."""
    with scene("migrate to one table", 4, stage) as play:
        lake = empty_lake(play)
        with play.traffic.flowing():
            play.fleet.start_ours("h1", lake.home, layout="auto")
            play.await_readers(START, "h1")
            play.fleet.start("k1", "3.4.2")
            play.await_readers(REBALANCE, "h1", "k1")
            config = settings_beside(play, lake)
            _refuses(play, config, "start", "one-table", because="worker k1 hasn't told")
            play.fleet.workers["k1"].stop()
            play.fleet.start("k2", "3.5.1")
            play.await_readers(REBALANCE, "h1", "k2")
            _step(play, config, "start", "one-table")
            play.check(_state(play, _STATE_TABLE, _STATUS) == "INIT", "every worker can work with one table")
            _age(play, _STATE_TABLE, _STATUS, _AN_HOUR)
            _step(play, config, "start", "one-table")
            play.check(_state(play, _STATE_TABLE, _STATUS) == "DEPLOYED", "rows may move")
            play.fleet.workers["k2"].stop()
            play.fleet.start("k3", "3.5.1", coordinator__migrateAllEntitiesToLeaseTable="true")
            play.await_readers(REBALANCE, "h1", "k3")
            _step(play, config, "start", "one-table")
            play.check(
                _state(play, _STATE_TABLE, _STATUS) == "PENDING", "workers' rows go to the lease table"
            )
            _age(play, _STATE_TABLE, _STATUS, _AN_HOUR)
            _step(play, config, "finish", "--bake", "1h")
            tables = (_STATE_TABLE, APP)
            play.check(
                [_state(play, table, _STATUS) for table in tables] == ["COMPLETE", "COMPLETE"], "it is final"
            )
            play.traffic.split(play.shards_of("h1")[0])
            play.await_reshard()
            play.await_readers(REBALANCE, "h1", "k3")
            play.check(_row(play, APP, _LOCK) is not None, "the leader's lock is in the lease table")
            play.check(
                {"h1", "k3"} <= {row["leaseKey"]["S"] for row in play.rows.tables()[APP]},
                "both workers' rows are in the lease table",
            )
        play.finish(lake, both={Cause.KCL_CUT_OFF: 2 * A_BATCH, Cause.OURS_CUT_OFF: A_WAVE})
        return play.fails


def _step(play: Scene, config: Path, action: str, *arguments: str) -> None:
    """Take the step as soon as the command allows it."""

    def is_taken() -> bool:
        try:
            said = headrace("migrate", action, *arguments, "--config", str(config), "--yes", play=play)
        except CommandFailed as refused:
            play.say(str(refused).strip())
            return False
        play.say(said)
        return True

    eventually(is_taken, f"migrate {action} was carried out", within=_READY_WITHIN, every=10.0)


def _refuses(play: Scene, config: Path, action: str, *arguments: str, because: str) -> None:
    try:
        headrace("migrate", action, *arguments, "--config", str(config), "--yes", play=play)
    except CommandFailed as refused:
        play.check(because in str(refused), f"too early, and it says why: {str(refused).strip()}")
    else:
        play.check(False, f"migrate {action} was refused")


def _key(table: str, row: str) -> dict[str, dict[str, str]]:
    return {"leaseKey" if table == APP else "key": {"S": row}}


def _row(play: Scene, table: str, row: str) -> dict[str, dict[str, str]] | None:
    answer = play.rows.dynamodb.get_item(TableName=table, Key=_key(table, row), ConsistentRead=True)
    item: dict[str, dict[str, str]] | None = answer.get("Item")
    return item


def _state(play: Scene, table: str, row: str) -> str:
    item = _row(play, table, row) or {}
    return (
        (item.get("cv") or item.get("tm") or {})
        .get("S", "")
        .removeprefix("CLIENT_VERSION_")
        .removeprefix("TABLE_MIGRATION_STATUS_")
    )


def _age(play: Scene, table: str, row: str, seconds: int) -> None:
    """Set the time of the last step back."""
    play.rows.dynamodb.update_item(
        TableName=table,
        Key=_key(table, row),
        UpdateExpression="SET mts = mts - :by",
        ConditionExpression="attribute_exists(mts)",
        ExpressionAttributeValues={":by": {"N": str(1000 * seconds)}},
    )


MIGRATIONS: dict[str, Callable[[Stage], int]] = {"migrate-3.x": to_3x, "migrate-one-table": to_one_table}
