"""What `headrace dev` prints of Dagster's output. `failed-tick.log` is what Dagster 1.13 has written, with other paths."""

import os
import subprocess
from pathlib import Path

import pytest

from headrace.pipeline.cli.beside.dagster_output import FailedTicks, relay
from headrace.pipeline.cli.beside.services import relay_command

LOG = (Path(__file__).parents[1] / "golden" / "failed-tick.log").read_text().splitlines(keepends=True)
"""A tick that was skipped; a tick that failed, logged twice; and two ticks that began."""
SENTENCE = (
    "headrace: the sensor shop_leader failed: there is no stream orders in us-east-1. Nothing was read or written; "
    "check the stream's name, aws.region and aws.endpoint in the settings\n"
)
FIRST, SECOND = (
    next(number for number, line in enumerate(LOG) if text in line)
    for text in ("Sensor tick caught an error", "Sensor daemon caught an error")
)
OF_TICKS = [LOG[0], LOG[SECOND - 1], LOG[-1]]


def printed(lines: list[str]) -> list[str]:
    ticks = FailedTicks()
    return [shown for line in lines for shown in ticks.next(line)] + list(ticks.end())


def unknown(lines: list[str]) -> list[str]:
    """The same log, as if the tick had failed for a reason that Headrace doesn't know."""
    return [line.replace("headrace.pipeline.errors.Unknown", "builtins.KeyError") for line in lines]


def test_a_tick_that_failed_for_a_known_reason_is_told_in_one_sentence_once():
    skipped, *begun = OF_TICKS
    assert printed(LOG) == [skipped, SENTENCE, *begun]
    assert printed(LOG * 2) == [skipped, SENTENCE, *begun, skipped, *begun]


def test_a_reason_of_several_lines_is_told_whole():
    more = ["a function of the user's failed:\n", "  orders.py, line 3\n", "\n", "    expected a number\n"]
    log = [line for old in LOG for line in ([old, *more] if "errors.Unknown: " in old else [old])]
    skipped, *begun = OF_TICKS
    assert printed(log) == [skipped, SENTENCE, *(line for line in more if line.strip()), *begun]


def test_a_tick_that_failed_for_another_reason_is_told_with_its_stack_once():
    log = unknown(LOG)
    assert printed(log) == [*log[:SECOND], log[-1]]


def test_a_stack_whose_second_entry_never_came_isnt_waited_for_for_ever():
    """Each tick that fails would take some memory, where a hook of the user's prints a line into each second entry."""
    log = unknown(LOG)
    others = (
        line.replace("line 851", f"line {number}") for number in range(100) for line in log[FIRST:SECOND]
    )
    lines = printed([*log[FIRST:SECOND], *others, *log[SECOND:]])
    assert sum("builtins.KeyError" in line for line in lines) == 102


def test_stacks_that_differ_are_both_printed():
    log = unknown(LOG[:SECOND]) + [line.replace("line 849", "line 1") for line in unknown(LOG[SECOND:])]
    log[-5] = "    raise error\n"
    assert printed(log) == log


def test_ticks_of_two_sensors_that_fail_at_one_time_are_told_apart():
    other = [line.replace("shop_leader", "shop_watch") for line in LOG]
    log = [*LOG[FIRST:SECOND], *other[FIRST:SECOND], *LOG[SECOND:], *other[SECOND:]]
    told = [line for line in printed(log) if line.startswith("headrace")]
    assert told == [SENTENCE, "headrace: the sensor shop_watch failed for the same reason as shop_leader\n"]


@pytest.mark.parametrize("place", range(FIRST + 1, SECOND + 1))
def test_what_another_process_prints_beside_a_stack_is_printed(place: int):
    foreign = "RuntimeError: a hook of the user's failed\n"
    assert foreign in printed([*LOG[:place], foreign, *LOG[place:]])


def test_a_stack_of_another_process_after_one_that_is_told_in_a_sentence_is_printed():
    foreign = [
        "Traceback (most recent call last):\n",
        '  File "hook.py", line 1, in tell\n',
        "ValueError: no\n",
    ]
    assert printed([*LOG[: SECOND - 1], *foreign]) == [LOG[0], SENTENCE, *foreign]


@pytest.mark.parametrize("end", range(FIRST, SECOND - 1))
def test_an_output_that_ends_within_a_stack_loses_no_reason(end: int):
    """As where Dagster is killed."""
    rest = printed(LOG[:end])
    assert rest == LOG[:end] or rest == [LOG[0], SENTENCE]


ENDS = (
    "\x1b[32m2026-01-31 12:00:04 +0000\x1b[0m - dagster.daemon - \x1b[34mINFO\x1b[0m - "
    "Received interrupt, shutting down daemon threads...\n"
)
NO_LOCATION = (
    "dagster._core.errors.DagsterCodeLocationNotFoundError: Location headrace does not exist in workspace\n"
)


def too_late(reason: str) -> list[str]:
    """A tick of which Dagster's daemon says that it failed for this reason."""
    stack = [*LOG[FIRST + 1 : FIRST + 5], reason]
    return [LOG[FIRST], *stack, LOG[SECOND - 1], LOG[SECOND], *stack]


def test_a_tick_that_begins_while_the_daemon_ends_isnt_told_of():
    assert printed([ENDS, *too_late(NO_LOCATION), LOG[0]]) == [ENDS, LOG[SECOND - 1], LOG[0]]


def test_a_tick_that_finds_no_code_location_while_the_daemon_works_is_told_of_once():
    log = too_late(NO_LOCATION)
    assert printed(log) == log[:7]


def test_another_failure_while_the_daemon_ends_is_told_of():
    log = too_late("RuntimeError: the disk is full\n")
    assert printed([ENDS, *log]) == [ENDS, *log[:7]]


def test_an_endless_stack_is_printed_as_it_comes():
    endless = [LOG[FIRST], *(f"  File {n}\n" for n in range(2000))]
    ticks = FailedTicks()
    assert len([shown for line in endless for shown in ticks.next(line)]) > 1900
    assert printed(endless) == endless


def test_bytes_that_are_no_text_are_printed_as_they_are():
    output = b"\xff\x1b[1mbold\r\n"
    relayed = subprocess.run(relay_command(), input=output, capture_output=True, check=True)
    assert relayed.stdout == output


def test_a_terminal_that_takes_nothing_for_a_moment_gets_everything(monkeypatch: pytest.MonkeyPatch):
    """Another program may have switched the terminal to not wait, which is then so for all programs that write to it."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    shown: list[bytes] = []

    def wait_for_terminal(*_: object) -> None:
        shown.append(os.read(reads, 1 << 20))

    monkeypatch.setattr("select.select", wait_for_terminal)
    lines = [f"{number}{'x' * 50_000}\n" for number in range(5)]
    with os.fdopen(writes, "w") as terminal, os.fdopen(reads, "rb") as rest:
        monkeypatch.setattr("sys.stdout", terminal)
        relay(lines)
        terminal.close()
        shown.append(rest.read())
    assert b"".join(shown).decode() == "".join(lines)
