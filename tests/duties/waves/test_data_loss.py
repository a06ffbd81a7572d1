"""Records that left the stream before they were read: they are always reported, and passed over only where the
settings say so."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import WITHIN_THE_SECOND
from headrace.pipeline.core.ledger.ledger import Kind, ParentIs
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.streams.family import SinceOrigin
from headrace.pipeline.errors import Unknown, Unreachable
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.settings.choices import OnDataLoss
from headrace.pipeline.settings.model import WaveSettings
from tests.duties.life import DAY, Life
from tests.memory.source import MemorySource

HOUR = timedelta(hours=1)
GOES_ON = OnDataLoss.CONTINUE


def a_trimmed_shard(on_data_loss: OnDataLoss) -> Life:
    """A shard of which three records landed, three were trimmed unread, and three are still in the stream."""
    life = Life(on_data_loss=on_data_loss)
    life.sync()
    life.produce(0)
    life.wave()
    life.produce(0)
    life.later(DAY)
    life.produce(0)
    life.later(HOUR)
    return life


def test_a_gap_stops_the_shard_with_a_sentence_that_names_the_command() -> None:
    life = a_trimmed_shard(OnDataLoss.STOP)
    report = life.wave()
    assert [p.fatal for p in report.problems] == [True]
    assert "headrace skip" in report.problems[0].why
    assert life.landed() == life.put[:3]
    assert life.skipped() == []


def test_with_on_data_loss_continue_the_gap_is_committed_first_and_then_the_records_that_are_left() -> None:
    life = a_trimmed_shard(GOES_ON)
    since = life.at(0)
    report = life.wave()
    assert [p.why for p in report.problems] == []
    assert ["may be lost" in note for note in report.notes] == [True]
    life.check(lost=life.put[3:6])
    now = life.source.describe("orders").asked
    assert since is not None
    assert life.skipped() == [("0", since.witness, now + WITHIN_THE_SECOND - DAY)]
    kinds = [r.kind for s in list(life.table.history(life.table.head))[::-1] for r in s.page.ranges]
    assert kinds == [Kind.LANDED, Kind.SKIPPED, Kind.LANDED]


def test_a_gap_before_the_first_record_of_a_shard_keeps_the_reasons_why_its_parents_are_out_of_the_way() -> (
    None
):
    life = Life(on_data_loss=GOES_ON)
    life.sync()
    life.produce(0)
    life.source.split(life.key(0))
    life.wave(["shardId-000000000000"])
    life.produce(1)
    life.later(DAY + HOUR)
    life.produce(1)
    life.wave()
    life.check(lost=life.put[3:6])
    skipped = life.ledger(Kind.SKIPPED)[0]
    assert (skipped.after, [p.shard_id[-1] for p in skipped.parents]) == (None, ["0"])


def test_a_loss_in_a_child_is_found_from_its_parents_last_record_however_late_the_origin_was_decided() -> (
    None
):
    life = Life(on_data_loss=GOES_ON)
    life.produce(0)
    life.source.split(life.key(0))
    life.later(HOUR)
    life.produce(1)
    life.later(19 * HOUR)
    life.sync()
    life.wave(["shardId-000000000000"])
    life.later(6 * HOUR)
    life.produce(1)
    life.wave()
    life.check(lost=life.put[3:6])
    assert [r.key.shard_id[-1] for r in life.ledger(Kind.SKIPPED)] == ["1", "2"]


def test_a_run_that_dies_between_the_two_commits_has_recorded_the_gap_which_later_only_grows() -> None:
    life = a_trimmed_shard(GOES_ON)
    commit, calls = life.table.commit, []

    def fail_at_the_second_commit(proposal):
        calls.append(proposal)
        if len(calls) == 2:
            raise Unreachable("no answer from the catalog; nothing was committed")
        return commit(proposal)

    life.table.commit = fail_at_the_second_commit  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        life.wave()
    life.table.commit = commit  # type: ignore[method-assign]
    assert len(life.skipped()) == 1
    life.later(HOUR)
    life.wave()
    life.check(lost=life.put[3:6])
    (_, since, until), (_, since_again, later) = life.skipped()
    assert since == since_again
    assert until is not None
    assert later == until + HOUR


def test_records_after_a_gap_dont_land_where_a_person_undoes_the_gap_before_their_commit() -> None:
    life = a_trimmed_shard(GOES_ON)
    stood, commit, commits = life.table.head, life.table.commit, []

    def set_back_before_the_second_commit(proposal):
        commits.append(proposal)
        if len(commits) == 2:
            life.table.rollback(stood)
        return commit(proposal)

    life.table.commit = set_back_before_the_second_commit  # type: ignore[method-assign]
    report = life.wave()
    assert ["has changed since this range began" in problem.why for problem in report.problems] == [True]
    assert (life.landed(), life.skipped()) == (life.put[:3], [])
    life.wave()
    life.check(lost=life.put[3:6])
    assert len(life.skipped()) == 1


def test_records_after_a_gap_dont_land_where_the_gap_itself_was_refused() -> None:
    """The table had moved on when the gap was to be recorded, and a person sets it back before the commit of the records."""
    life = a_trimmed_shard(GOES_ON)
    stood, commit, commits = life.table.head, life.table.commit, []

    def move_on_and_set_back(proposal):
        commits.append(proposal)
        if len(commits) == 1:
            (gap,) = proposal.ranges
            commit(Proposal((replace(gap, upto=Position(10**30)),)))
        else:
            life.table.rollback(stood)
        return commit(proposal)

    life.table.commit = move_on_and_set_back  # type: ignore[method-assign]
    report = life.wave()
    assert ["has changed since this range began" in problem.why for problem in report.problems] == [True]
    assert (life.landed(), life.skipped()) == (life.put[:3], [])
    life.table.commit = commit  # type: ignore[method-assign]
    life.wave()
    life.check(lost=life.put[3:6])
    assert len(life.skipped()) == 1


def test_a_look_after_a_gap_holds_only_where_the_ledger_has_the_gap() -> None:
    """No record is left after the gap, so that the position stays through all later looks."""
    life = Life(on_data_loss=GOES_ON)
    life.sync()
    life.produce(0)
    life.wave()
    life.produce(0)
    life.later(DAY + HOUR)
    stood, commit = life.table.head, life.table.commit
    life.wave()
    assert len(life.skipped()) == 1

    def set_back_before_the_commit(proposal):
        life.table.rollback(stood)
        return commit(proposal)

    life.later(DAY / 2)
    life.table.commit = set_back_before_the_commit  # type: ignore[method-assign]
    report = life.wave()
    assert ["has changed since this range began" in problem.why for problem in report.problems] == [True]
    life.table.commit = commit  # type: ignore[method-assign]
    life.wave()
    life.check(lost=life.put[3:6])
    assert len(life.skipped()) == 1


def test_a_wave_without_a_gap_records_none() -> None:
    life = Life(on_data_loss=GOES_ON)
    life.sync()
    life.produce(0)
    life.wave()
    life.later(DAY - HOUR)
    life.produce(0)
    life.wave()
    life.check()
    assert life.skipped() == []


def vanished(on_data_loss: OnDataLoss) -> Life:
    """Shard 0 was split, and left Kinesis before it was read to its end."""
    life = Life(on_data_loss=on_data_loss)
    life.sync()
    life.produce(0)
    life.wave()
    life.produce(0)
    life.source.split(life.key(0))
    life.later(DAY + HOUR)
    life.produce(1)
    life.produce(2)
    return life


def test_a_shard_that_left_kinesis_stops_and_its_children_wait() -> None:
    life = vanished(OnDataLoss.STOP)
    life.sync()
    for _ in range(2):
        report = life.wave()
        life.sync()
    assert [(p.lease_key[-1], p.fatal) for p in report.problems] == [("0", True)]
    assert life.landed() == life.put[:3]
    assert life.row(1) is None


def test_with_on_data_loss_continue_a_shard_that_left_kinesis_is_ended_and_its_children_are_read() -> None:
    life = vanished(GOES_ON)
    life.sync()
    for _ in range(3):
        life.wave()
    life.check(lost=life.put[3:6])
    ended = life.at(0)
    assert ended is not None
    assert (ended.ended, [c[-1] for c in ended.children]) == (True, ["1", "2"])
    row = life.row(0)
    assert row is not None
    assert row.has_ended
    assert ("0", Kind.SKIPPED) in [(r.key.shard_id[-1], r.kind) for r in life.ledger(Kind.SKIPPED)]


def test_the_gap_of_a_shard_that_left_kinesis_ends_where_no_record_can_be_lost_any_more() -> None:
    """A retention before Kinesis's clock, and a second more, because that clock tells whole seconds."""
    life = vanished(GOES_ON)
    life.sync()
    stood = life.at(0)
    assert stood is not None
    life.wave()
    now = life.source.aws_now()
    assert now is not None
    assert gaps_of(life, "0") == [(stood.witness, now + WITHIN_THE_SECOND - DAY)]


def test_a_shard_that_kinesis_denies_within_its_retention_is_not_ended() -> None:
    life = Life(on_data_loss=GOES_ON)
    life.sync()
    life.produce(0)
    life.wave()
    life.source.is_gone = lambda key: True  # type: ignore[method-assign]
    life.source.split(life.key(0))
    life.source.hidden = frozenset({life.key(0).shard_id})  # no listing shows the shard either
    report = life.wave()
    assert life.skipped() == []
    life.check()
    assert report.rows == 0


def test_a_child_that_left_the_stream_unread_after_its_parents_end_gets_a_row_and_is_reported() -> None:
    """No listing shows the child, and its own children must not be read before it."""
    life = Life()
    life.sync()
    life.produce(0)
    life.source.split(life.key(0))
    life.wave()
    life.produce(1)
    life.source.split(life.key(1))
    life.later(DAY + HOUR)
    life.produce(3)
    life.lose_rows(1)
    told = life.sync()
    assert [t[0] for t in told if "ended" in t] == ["1"]
    report = life.wave()
    assert ("1", True) in [(p.lease_key[-1], p.fatal) for p in report.problems]
    assert [row for row in life.landed() if row[0] in {life.key(3), life.key(4)}] == []


def test_a_child_isnt_read_past_a_trimmed_parent_that_left_the_scoped_listing() -> None:
    """D16. The parent's row keeps the child waiting; without that row the child's own witness shows the loss."""
    for with_row in (True, False):
        life = Life()
        life.sync()
        life.produce(0)
        life.source.split(life.key(0))
        life.later(DAY + HOUR)
        life.produce(1)
        if not with_row:
            life.lose_rows(0)
        life.sync()
        for number in (1, 2):
            if life.row(number) is None:
                life.put_row(number, parents=frozenset({life.key(0).shard_id}))
        report = life.wave([life.key(number).shard_id for number in (1, 2)])
        assert life.landed() == []
        told = {p.lease_key[-1]: p.why for p in report.problems}
        assert ("hasn't been read to its end" if with_row else "may have left the stream") in told["1"]


def test_no_shard_has_left_a_stream_that_is_younger_than_a_day() -> None:
    """A late listing hides the parent, and Kinesis falsely denies it. Nothing has landed that would show how old it is."""
    for passes, landed in ((HOUR, False), (DAY + HOUR, True)):
        life = Life()
        life.produce(0)
        life.source.split(life.key(0))
        life.later(passes)
        life.produce(1)
        life.source.hidden = frozenset({life.key(0).shard_id})
        life.source.is_gone = life.key(0).__eq__  # type: ignore[assignment, method-assign]
        life.sync()
        report = life.wave()
        assert bool([row for row in life.landed() if row[0] == life.key(1)]) is landed
        assert any("hasn't left the stream" in problem.why for problem in report.problems) is not landed


def test_an_old_stream_isnt_described_for_each_shard_that_has_left_it() -> None:
    """A first start may meet hundreds of such shards, and Kinesis throttles descriptions."""
    life = Life()
    gone = ShardKey(life.key(0).stream, "shardId-000000000009")
    described: list[str] = []

    def describe(name: str) -> StreamFacts:
        described.append(name)
        return MemorySource.describe(life.source, name)

    life.source.describe = describe  # type: ignore[method-assign]
    since = SinceOrigin(gone.stream, Positions(), life.source)
    assert not since.is_gone(gone)
    assert described == [gone.stream.arn]
    described.clear()
    life.later(DAY + HOUR)
    assert since.is_gone(gone)
    assert described == []


def gaps_of(life: Life, shard: str) -> list[tuple[datetime | None, datetime | None]]:
    return [(since, until) for which, since, until in life.skipped() if which == shard]


def test_a_gap_below_a_shard_that_left_unread_begins_where_the_last_known_shard_was_read_to() -> None:
    """Shard 1 had records from before the origin was decided. Its parent was being read then, so that these records
    were to be read, too."""
    life = Life(on_data_loss=GOES_ON)
    life.settings = replace(life.settings, wave=WaveSettings(records=1))
    life.produce(0)
    life.source.split(life.key(0))
    life.produce(1)
    life.source.split(life.key(1))
    life.later(HOUR)
    life.sync()
    life.wave()
    read = life.at(0)
    assert read is not None
    life.later(DAY + HOUR)
    life.sync()
    life.wave()
    assert {p.shard_id[-1]: p.why for r in life.ledger(Kind.SKIPPED) for p in r.parents}["1"] is ParentIs.GONE
    for shard in "34":
        assert [since for since, _ in gaps_of(life, shard)] == [read.witness], (
            "before the first record of shard 1"
        )
    life.check(lost=life.put[1:])


def test_a_gap_of_shards_of_which_nothing_was_read_begins_with_what_the_stream_had_when_its_origin_was_decided() -> (
    None
):
    """Shard 0 left the stream unread, with records from before the origin was decided. Its children tell of them."""
    life = Life(on_data_loss=GOES_ON)
    began = life.clock.now()
    life.produce(0)
    life.source.split(life.key(0))
    life.later(HOUR)
    life.sync()
    life.lose_rows(0)
    life.later(DAY + HOUR)
    life.produce(1)
    for _ in range(2):
        life.sync()
        life.wave()
    assert gaps_of(life, "0") == []
    for shard in "12":
        ((since, _),) = gaps_of(life, shard)
        assert since is not None
        assert since <= began, "before the first record of shard 0"
    life.check(lost=life.put[:3])


def test_a_gap_of_a_merges_child_allows_for_the_parent_that_nothing_names_any_more() -> None:
    """Kinesis has forgotten shards 0, 1 and 2, and the rows of 1 and 2 are lost. The END of shard 0 names only shard 2."""
    life = Life(shards=2, on_data_loss=GOES_ON)
    life.sync()
    begun = life.positions.origins[life.stream].decided
    life.produce(1)
    life.later(HOUR)
    life.produce(0)
    life.source.merge(life.key(0), life.key(1))
    life.wave(["shardId-000000000000"])
    life.source.split(life.key(2))
    life.lose_rows(1, 2)
    life.later(DAY + HOUR)
    life.sync()
    life.wave()
    assert [since for since, _ in gaps_of(life, "2")] == [begun], "before the first record of shard 1"
    life.check(lost=life.put[:3])


def test_a_child_of_a_merge_waits_while_its_other_parent_is_in_no_listing_yet() -> None:
    life = Life(shards=2)
    life.sync()
    life.produce(1)
    life.source.merge(life.key(0), life.key(1))
    life.source.hidden = frozenset({life.key(2).shard_id})
    life.wave([life.key(0).shard_id])
    assert life.sync() == [], "the last page of shard 0 has told both parents, and the run has made the row"
    report = life.wave([life.key(2).shard_id])
    assert [p.fatal for p in report.problems] == [False]
    assert "no listing of the stream shows this shard yet" in report.problems[0].why
    assert "shardId-000000000001 hasn't been read to its end" in report.problems[0].why, "by the row"
    life.source.hidden = frozenset()
    assert "hasn't been read" in life.wave([life.key(2).shard_id]).problems[0].why
    for _ in range(2):
        life.wave()
    life.check()
    assert (at := life.at(2)) is None or not at.ended


def test_a_shard_that_kinesis_still_lists_is_not_ended_though_its_iterator_is_denied() -> None:
    """Kinesis contradicts itself here: a shard that has left the stream is in no listing."""
    life = Life(on_data_loss=GOES_ON)
    life.sync()
    life.produce(0)
    life.wave()
    life.later(DAY + HOUR)
    life.stage.fault = lambda _key: _deny()
    life.source.is_gone = lambda key: True  # type: ignore[method-assign]
    life.wave()
    at = life.at(0)
    assert at is not None
    assert not at.ended
    assert life.skipped() == []


def test_a_shard_that_a_late_list_leaves_out_is_not_ended_though_its_iterator_is_denied() -> None:
    """The list lacks one of the children, too, and with it hash keys. So it can't tell that the shard has left the stream."""
    life = Life(on_data_loss=GOES_ON)
    life.sync()
    life.produce(0)
    life.wave()
    life.later(DAY + HOUR)
    life.source.split(life.key(0))
    life.stage.fault = lambda _key: _deny()
    life.source.is_gone = lambda key: True  # type: ignore[method-assign]
    life.source.hidden = frozenset({life.key(0).shard_id, life.key(1).shard_id})
    life.wave()
    at = life.at(0)
    assert at is not None
    assert not at.ended
    assert life.skipped() == []


def test_a_shard_that_was_listed_when_the_wave_began_is_not_ended_by_a_list_that_shows_its_children_only() -> (
    None
):
    """The children cover the shard's hash keys, so the later list looks whole. No record of the shard has landed."""
    life = Life(on_data_loss=GOES_ON)
    life.sync()
    life.produce(0)
    life.later(DAY + HOUR)
    life.source.split(life.key(0))

    def deny_and_hide(_key: ShardKey) -> None:
        life.source.hidden = frozenset({life.key(0).shard_id})
        _deny()

    life.stage.fault = deny_and_hide
    life.source.is_gone = lambda key: True  # type: ignore[method-assign]
    life.wave()
    assert life.at(0) is None
    assert life.skipped() == []


def _deny() -> None:
    raise Unknown("GetShardIterator: there is no such shard")
