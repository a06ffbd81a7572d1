"""A storage that Dagster can't use is told in one sentence, in the place of hundreds of lines a second."""

from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.cli.beside.dagster_output import FailedTicks

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TOLD = (
    "headrace: Dagster's storage can't be used (disk I/O error), so that no tick and no run begins, and nothing more lands. No landed "
    "record is touched, and Kinesis keeps the others; make room in DAGSTER_HOME, or give the right to write there\n"
)


def entry(
    after: timedelta,
    source: str = "dagster.daemon.SensorDaemon",
    what: str = "Failed to add heartbeat: ",
    reason: str = "disk I/O error",
) -> list[str]:
    """As Dagster 1.13 writes it."""
    return [
        f"\x1b[32m{NOON + after:%Y-%m-%d %H:%M:%S %z}\x1b[0m - {source} - \x1b[34mERROR\x1b[0m - \x1b[31m{what}\n",
        f"sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) {reason}\n",
        "[SQL: SELECT daemon_heartbeats.body \n",
        "FROM daemon_heartbeats]\n",
        "(Background on this error at: https://sqlalche.me/e/21/e3q8)\n",
        "\n",
        "Stack Trace:\n",
        '  File "/venv/dagster/_daemon/daemon.py", line 253, in core_loop\n',
        "The above exception was caused by the following exception:\n",
        f"sqlite3.OperationalError: {reason}\n",
        "\x1b[0m\n",
    ]


def printed(lines: list[str]) -> list[str]:
    output = FailedTicks()
    return [shown for line in lines for shown in output.next(line)] + list(output.end())


def test_entries_of_all_daemons_become_one_sentence_and_reminders():
    lines = [
        line
        for second in range(240)
        for daemon in ("SensorDaemon", "QueuedRunCoordinatorDaemon")
        for line in entry(timedelta(seconds=second), f"dagster.daemon.{daemon}")
    ]
    assert printed(lines) == [
        TOLD,
        *2
        * [
            "headrace: Dagster's storage still can't be used, since 2026-01-31 12:00:00 +0000 (disk I/O error)\n"
        ],
    ]


@pytest.mark.parametrize(
    "what", ["Caught error:", "SensorDaemon caught an error", "Error attempting to check daemon heartbeats"]
)
def test_each_kind_of_entry_is_told(what: str):
    assert printed(entry(timedelta(0), what=what)) == [TOLD]


def test_once_it_was_well_for_some_minutes_the_whole_sentence_is_told_again():
    assert printed([*entry(timedelta(0)), *entry(timedelta(minutes=11))]) == [TOLD, TOLD]


def test_what_other_processes_print_between_the_lines_is_printed():
    lines = entry(timedelta(0))
    foreign = "a hook of the user's prints\n"
    for place in (1, 2, 5, 8, len(lines)):
        assert foreign in printed([*lines[:place], foreign, *lines[place:]])


def test_an_error_of_another_kind_is_printed_as_it_is():
    lines = entry(timedelta(0), reason="no such table: runs")
    assert printed(lines) == lines
