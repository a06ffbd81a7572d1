"""KCL's checkpointer: which checkpoints an application may write, and how a shard ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.shards.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.kcl.checkpointer import (
    CheckpointProgress,
    OutOfBounds,
    Unchanged,
    Write,
    delivered,
    plan_checkpoint,
    plan_prepare,
    shard_ended,
    written,
)


def at(sequence, sub=0):
    return Checkpoint(str(sequence), sub)


AGGREGATE = CheckpointProgress(last=at(50), largest=at(90, 7))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (None, Write(at(90, 7))),
        (at(50), Unchanged()),
        (at(60), Write(at(60))),
        (at(90), Write(at(90))),
        (at(90, 7), Write(at(90, 7))),
        (at(90, 8), OutOfBounds),
        (at(49), OutOfBounds),
        (at(91), OutOfBounds),
        (at(60, -1), OutOfBounds),
        (SHARD_END, OutOfBounds),
        (LATEST, OutOfBounds),
    ],
)
def test_a_checkpoint_lies_between_the_last_one_and_the_last_delivered_record(asked, answer):
    for plan in (plan_checkpoint, plan_prepare):
        got = plan(AGGREGATE, asked)
        assert isinstance(got, answer) if isinstance(answer, type) else got == answer


def test_a_sequence_number_without_a_sub_sequence_number_lies_before_the_user_records_of_its_aggregate():
    assert isinstance(plan_checkpoint(CheckpointProgress(at(90, 3), at(90, 7)), at(90)), OutOfBounds)


def test_before_any_record_was_delivered_no_checkpoint_is_written():
    nothing = CheckpointProgress(last=TRIM_HORIZON)
    assert plan_checkpoint(nothing) == Unchanged()
    assert isinstance(plan_checkpoint(nothing, at(1)), OutOfBounds)
    assert isinstance(plan_prepare(nothing), OutOfBounds)


def test_a_checkpoint_at_the_shards_last_record_is_written_as_shard_end():
    end = shard_ended(CheckpointProgress(at(50), at(90, 7)))
    for asked in (None, at(90, 7), SHARD_END):
        assert plan_checkpoint(end, asked) == Write(SHARD_END)
        assert plan_prepare(end, asked) == Write(SHARD_END)
    assert plan_checkpoint(end, at(90)) == Write(at(90)), (
        "the sequence number alone isn't the last user record"
    )


def test_when_a_shards_end_is_processed_again_only_a_checkpoint_at_shard_end_ends_the_shard():
    again = shard_ended(shard_ended(CheckpointProgress(at(50), at(90))))
    assert plan_checkpoint(again, at(90)) == Write(at(90))
    assert plan_checkpoint(again) == Write(SHARD_END)


def test_kcl_doesnt_end_a_shard_whose_last_record_was_checkpointed_before_unless_mended_is_set():
    end = shard_ended(CheckpointProgress(at(90), at(90)))
    assert plan_checkpoint(end, at(90)) == Unchanged()
    assert plan_checkpoint(end, at(90), mended=True) == Write(SHARD_END)
    assert plan_prepare(end, at(90)) == Write(SHARD_END), (
        "a prepared checkpoint becomes SHARD_END before it is compared with the last one"
    )


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("deliver"), st.integers(0, 40), st.integers(0, 3)),
            st.tuples(st.just("checkpoint"), st.integers(0, 40), st.integers(-1, 3)),
            st.tuples(st.just("all"), st.just(0), st.just(0)),
            st.tuples(st.just("end"), st.just(0), st.just(0)),
        ),
        max_size=40,
    ),
    st.booleans(),
)
def test_a_row_goes_neither_back_nor_beyond_the_last_delivered_record(steps, mended):
    progress = CheckpointProgress(last=at(0))
    for what, sequence, sub in steps:
        match what:
            case "deliver" if progress.largest is None or at(sequence, sub) > progress.largest:
                progress = delivered(progress, at(sequence, sub))
            case "end" if progress.largest is not None:
                progress = shard_ended(progress)
            case "checkpoint" | "all":
                before = progress
                answer = plan_checkpoint(before, None if what == "all" else at(sequence, sub), mended=mended)
                if isinstance(answer, Write):
                    progress = written(before, answer)
                    assert before.last is not None
                    assert before.largest is not None
                    assert (
                        before.last
                        <= answer.checkpoint
                        <= max(before.largest, before.at_end or before.largest)
                    )
            case _:
                continue
        assert isinstance(progress.last, Checkpoint)
