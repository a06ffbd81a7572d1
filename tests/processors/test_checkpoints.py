"""The host's answers to checkpoints, as KCL's daemon gives them."""

import pytest

from headrace.pipeline.processors.checkpoints import Checkpoints, refusal


def error_of(checkpoints: Checkpoints, number: object, sub: object = None, *, action: str = "processRecords"):
    return checkpoints.answer({"sequenceNumber": number, "subSequenceNumber": sub}, action=action)["error"]


def delivered(last: tuple[int, int] | None = (5, 0), upto: tuple[int, int] = (20, 3)) -> Checkpoints:
    checkpoints = Checkpoints.since(last)
    checkpoints.deliver(upto)
    return checkpoints


@pytest.mark.parametrize(
    ("number", "sub"),
    [
        ("4", None),
        ("21", None),
        ("20", 4),
        ("abc", None),
        ("1", None),
        ("9" * 56, None),
        ("SHARD_END", None),
        ("TRIM_HORIZON", None),
        ("10", -1),
        ("10", "x"),
        ("9" * 200, None),
    ],
)
def test_a_checkpoint_outside_of_what_was_delivered_is_an_illegal_argument(number: str, sub: object):
    checkpoints = delivered()
    assert error_of(checkpoints, number, sub) == "IllegalArgumentException"
    assert checkpoints.place == (5, 0)


def test_a_checkpoint_without_a_number_is_the_last_delivered_user_record_and_one_with_a_number_its_first():
    checkpoints = delivered()
    assert error_of(checkpoints, "20") is None
    assert checkpoints.place == (20, 0)
    assert error_of(checkpoints, None, 2) is None
    assert checkpoints.place == (20, 3)
    # A bare number would go back within the aggregate.
    assert error_of(checkpoints, "20") == "IllegalArgumentException"
    assert error_of(checkpoints, "20", 3) is None


@pytest.mark.parametrize("action", ["initialize", "leaseLost"])
def test_there_is_no_checkpointer_before_the_first_record_and_after_the_lease(action: str):
    assert error_of(delivered(), None, action=action) == "InvalidStateException"


@pytest.mark.parametrize("number", [None, "20"])
def test_the_end_of_a_shard_is_checkpointed_without_a_number_or_at_its_last_record(number: str | None):
    checkpoints = delivered()
    assert error_of(checkpoints, "20", 3) is None
    checkpoints.end()
    assert error_of(checkpoints, number, 3, action="shardEnded") is None
    assert checkpoints.has_ended


def test_an_earlier_checkpoint_at_the_end_of_a_shard_doesnt_end_it():
    checkpoints = delivered()
    checkpoints.end()
    assert error_of(checkpoints, "19", action="shardEnded") is None
    assert not checkpoints.has_ended
    assert checkpoints.place == (19, 0)


def test_the_answer_repeats_what_was_asked():
    answer = delivered().answer({"sequenceNumber": "7", "subSequenceNumber": 1}, action="processRecords")
    assert answer == {"action": "checkpoint", "sequenceNumber": "7", "subSequenceNumber": 1, "error": None}


@pytest.mark.parametrize(
    ("message", "number", "sub"),
    [
        ({"action": "checkpoint"}, None, None),
        ({"sequenceNumber": 7, "subSequenceNumber": "1"}, "7", 1),
        (
            {"sequenceNumber": "7", "subSequenceNumber": "one", "prepare": True, "applicationState": ""},
            "7",
            "one",
        ),
    ],
)
def test_an_answer_has_the_members_and_types_of_kcls_daemon_whatever_the_program_wrote(
    message: dict[str, object], number: object, sub: object
):
    expected = {"action": "checkpoint", "sequenceNumber": number, "subSequenceNumber": sub}
    answer = delivered().answer(message, action="processRecords")
    assert {**answer, "error": None} == {**expected, "error": None}
    assert refusal(message, action="shutdownRequested") == {**expected, "error": "ShutdownException"}
    assert refusal(message, action="leaseLost") == {**expected, "error": "InvalidStateException"}
