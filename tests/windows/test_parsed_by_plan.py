"""Which windows a backfill needn't parse again: what was decided last about each record counts."""

from dataclasses import replace

import pytest

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.generation import chain_of
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.windows.parsed_by_plan import is_parsed_by
from headrace.pipeline.windows.window import ReplayWindow, WindowRange
from tests.lake.samples import NOON, a_key, at

A, B = a_key(0), a_key(1)
OLD, NEW = ("1", "code a"), ("2", "code b")


def decided(
    by: tuple[str, str], after: int | None, upto: int, *, kind: Kind = Kind.PARSED, key: ShardKey = A
) -> Range:
    version, code = by
    account = Accounting(1, 1, version=version, code=code).text()
    begin: Position | None = None if after is None else at(after)
    return Range(kind, key, begin, at(upto), run="r", claim="", account=account)


def redriven(by: tuple[str, str]) -> Range:
    return decided(by, 1, 2, kind=Kind.REDRIVEN, key=chain_of(A))


def window(*keys: ShardKey) -> ReplayWindow:
    ranges = tuple(WindowRange(key, at(10), at(20)) for key in keys)
    return ReplayWindow(id="w", application="app", made=NOON, by="a test", how="a test", ranges=ranges)


def verdict(*decisions: Range, of: ReplayWindow | None = None) -> bool:
    """`decisions`: oldest first, each of a commit of its own."""
    entries = [LedgerEntry(n, n, NOON, LedgerPage((each,))) for n, each in enumerate(decisions, start=1)]
    return is_parsed_by(of or window(A), entries, version=NEW[0], code=NEW[1])


@pytest.mark.parametrize(
    ("decisions", "is_parsed"),
    [
        pytest.param([], False, id="nothing is known"),
        pytest.param([decided(NEW, None, 30)], True, id="parsed by it"),
        pytest.param([decided(NEW, 10, 15), decided(NEW, 15, 20)], True, id="in two waves"),
        pytest.param([decided(NEW, 10, 15)], False, id="in part"),
        pytest.param([decided(NEW, 10, 14), decided(NEW, 16, 20)], False, id="with a hole"),
        pytest.param([decided(OLD, 0, 30)], False, id="parsed by older code"),
        pytest.param([decided(("2", "code a"), 0, 30)], False, id="of this version, by other code"),
        pytest.param([decided(("1", "code b"), 0, 30)], False, id="by this code, of another version"),
        pytest.param(
            [decided(OLD, 0, 30), decided(NEW, 10, 20, kind=Kind.REPLAY)], True, id="replaced by it"
        ),
        pytest.param(
            [decided(OLD, 0, 30), decided(NEW, 10, 19, kind=Kind.REPLAY)], False, id="replaced in part"
        ),
        pytest.param(
            [decided(NEW, 0, 30), decided(OLD, 19, 21, kind=Kind.REPLAY)], False, id="replaced by older code"
        ),
        pytest.param(
            [decided(NEW, 0, 30), decided(OLD, 20, 30, kind=Kind.REPLAY)], True, id="replaced just after it"
        ),
        pytest.param([decided(NEW, 0, 30), redriven(OLD)], False, id="redriven by older code since"),
        pytest.param([decided(NEW, 0, 30), redriven(NEW)], True, id="redriven by it"),
        pytest.param(
            [decided(OLD, 0, 30), redriven(OLD), decided(NEW, 10, 20, kind=Kind.REPLAY)],
            True,
            id="redriven by older code, and replaced since",
        ),
    ],
)
def test_records_are_parsed_if_the_last_decision_about_each_is_of_this_version_and_code(
    *, decisions: list[Range], is_parsed: bool
):
    assert verdict(*decisions) is is_parsed


def test_each_shard_of_the_window_has_to_be_parsed():
    both = window(A, B)
    mine, other = decided(NEW, 0, 30), decided(NEW, 0, 30, key=B)
    assert not verdict(mine, of=both)
    assert verdict(mine, other, of=both)
    assert not verdict(mine, decided(OLD, 0, 30, key=B), of=both)


def test_a_part_of_the_ledgers_that_has_no_account_of_rows_tells_nothing():
    landed = replace(decided(NEW, 0, 30), kind=Kind.LANDED)
    assert not verdict(landed)
