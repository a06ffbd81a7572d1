"""Whether what came back from a wave accounts for its rows, and what the quarantine table gets of it."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.ledger import Kind, LedgerPage, Range
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.errors import ChainBroken, WrongShape
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ColumnsFrom, ParseFormat
from headrace.pipeline.typed.account import account, one_report, told_reasons, why_stop
from headrace.pipeline.typed.quarantine.settle_plan import plan_settling
from headrace.pipeline.typed.values import Parsed, PlannedRange, ShardCount, WavePlan
from tests.typed.plans import A, B, at, positions


def a_plan(rows: int = 3) -> WavePlan:
    return WavePlan((PlannedRange(A, None, at(10), rows=rows),))


def came_back(parsed: int, aside: int, *numbers: tuple[int, int]) -> Parsed:
    return Parsed(counts=(ShardCount(A, parsed, aside),), numbers=numbers)


def test_what_came_back_accounts_for_each_row():
    told = account(a_plan(), came_back(2, 0, (0, 2)), dropped_as="filter", version="7", schema=4)
    assert told == {A: Accounting(3, 2, 0, {"filter": 1}, "7", 4)}
    assert read_accounting(told[A].text()) == told[A]


@pytest.mark.parametrize(
    ("parsed", "why"),
    [
        (came_back(2, 0, (0, 2)), "3 rows went in, 2 were parsed and 0 set aside"),
        (came_back(4, 0, (0, 2), (1, 2)), "row 1 of the wave came back twice"),
        (came_back(4, 0, (0, 4)), "row 3 came back, and the wave has 3 rows"),
        (came_back(3, 0, (0, 2)), "don't agree with how many were written"),
        (Parsed(counts=(ShardCount(B, 3),), numbers=((0, 3),)), "of which the wave has none"),
    ],
)
def test_rows_that_dont_account_for_the_wave_are_refused(parsed: Parsed, why: str):
    with pytest.raises(WrongShape, match=why):
        account(a_plan(), parsed, dropped_as="", version="1", schema=0)


def test_rows_of_one_shard_that_come_back_as_those_of_another_are_refused():
    plan = WavePlan((PlannedRange(A, None, at(10), rows=1), PlannedRange(B, None, at(10), rows=1)))
    parsed = Parsed(counts=(ShardCount(A, 2),), numbers=((0, 2),))
    with pytest.raises(WrongShape, match="more rows came back than went in"):
        account(plan, parsed, dropped_as="callable", version="1", schema=0)


def test_a_wave_stops_where_too_much_would_be_set_aside():
    assert why_stop([Accounting(99, 0, 99)], 0.5) is None
    assert why_stop([Accounting(100, 50, 50)], 0.5) is None
    assert "51 of 100 records" in str(why_stop([Accounting(100, 49, 51)], 0.5))
    # Records that a filter leaves out say nothing of the parser.
    assert why_stop([Accounting(1100, 0, 100, {"filter": 1000})], 0.5) is not None
    # Duplicates were parsed.
    assert why_stop([Accounting(785, 56, 65, {"duplicate": 664})], 0.5) is None


def test_a_stop_names_the_most_frequent_reasons_of_all_tasks():
    reports = (
        Parsed(reasons=(("the column n (INT)", 40), ("no object", 30))),
        Parsed(reasons=(("no object", 25), ("no text", 4), ("no payload", 1))),
    )
    why = str(why_stop([Accounting(100, 0, 100)], 0.5, one_report(reports).reasons))
    assert why.endswith(
        "reasons are: no object (55 records); the column n (INT) (40 records); no text (4 records)"
    )


@pytest.mark.parametrize(
    ("settings", "names_them"),
    [
        ({}, True),
        ({"format": ParseFormat.CALLABLE}, False),
        ({"format": ParseFormat.AVRO}, False),
        ({"columns": ColumnsFrom.EVOLVING}, False),
    ],
)
def test_an_error_names_no_reason_that_may_quote_a_record(settings: dict[str, Any], *, names_them: bool):
    target = replace(ParseSettings(name="orders", table="lake.orders"), **settings)
    parsed = Parsed(reasons=(("ValueError: Jane Doe", 1),))
    assert bool(told_reasons(parsed, target)) is names_them


def test_an_accounting_of_another_version_is_refused():
    with pytest.raises(WrongShape, match="upgrade Headrace"):
        read_accounting('{"form":2}')
    with pytest.raises(WrongShape, match="can't be read"):
        read_accounting("")


def a_page(after: int | None, upto: int, aside: int) -> LedgerPage:
    names = (f"f{upto}",) if aside else ()
    account = Accounting(aside, 0, aside, aside=names).text()
    before = None if after is None else at(after)
    return LedgerPage((Range(Kind.PARSED, A, before, at(upto), run="r", claim="r", account=account),))


def test_the_quarantine_table_gets_what_all_later_commits_have_set_aside():
    pages = [a_page(20, 30, 1), LedgerPage(), a_page(10, 20, 2), a_page(None, 10, 4)]
    (found,) = plan_settling(positions(a=at(30)), positions(a=at(10)), pages)
    assert (found.after, found.upto, found.quarantined) == (at(10), at(30), 3)
    assert found.files == {"f20", "f30"}
    assert plan_settling(positions(a=at(30)), positions(a=at(30)), iter(())) == ()
    (whole,) = plan_settling(positions(a=at(30)), positions(), pages)
    assert whole.quarantined == 7


def test_a_replay_of_the_same_records_is_no_part_of_the_chain_that_the_quarantine_table_follows():
    (again,) = a_page(None, 30, 9).ranges
    pages = [LedgerPage((replace(again, kind=Kind.REPLAY),)), a_page(20, 30, 1), a_page(10, 20, 2)]
    (found,) = plan_settling(positions(a=at(30)), positions(a=at(10)), pages)
    assert found.quarantined == 3


def test_a_commit_that_was_rolled_back_is_no_part_of_the_chain_that_the_quarantine_table_follows():
    pages = [a_page(20, 30, 1), a_page(20, 25, 8), a_page(10, 20, 2)]
    (found,) = plan_settling(positions(a=at(30)), positions(a=at(10)), pages)
    assert (found.quarantined, found.files) == (3, frozenset({"f20", "f30"}))


@pytest.mark.parametrize("quarantine", [positions(a=at(15)), positions(a=at(40)), positions(b=at(1))])
def test_a_quarantine_table_to_which_the_ledgers_dont_lead_is_refused(quarantine: Positions):
    pages = [a_page(20, 30, 1), a_page(10, 20, 2), a_page(None, 10, 4)]
    with pytest.raises(ChainBroken, match="rolled back, made anew, or lost its history"):
        plan_settling(positions(a=at(30)), quarantine, pages)
