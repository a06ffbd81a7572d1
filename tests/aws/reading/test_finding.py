"""Discovering streams on Kinesis: pages, at most five requests a second, and streams that are created and deleted
meanwhile."""

from collections import Counter
from typing import Any

import pytest

from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.errors import Terminal, Throttled, Unreachable
from headrace.pipeline.local.inprocess import InProcessKinesis

SHOP_TAG = {"team": "shop"}


class Account:
    """Streams of a stand-in in this process, and the requests about them."""

    def __init__(self, streams: int, **how: Any) -> None:
        self.local = InProcessKinesis(**how)
        self.client = self.local.client()
        self.names = [f"orders-{n:03d}" for n in range(streams)]
        for name in self.names:
            self.client.create_stream(StreamName=name, ShardCount=1)
            self.local.clock.advance(how.get("transition", 0))
            self.client.add_tags_to_stream(StreamName=name, Tags=SHOP_TAG)
            self.local.clock.advance(1)
        self.source = KinesisSource(self.client)
        self.calls: Counter[str] = Counter()
        self.asked: list[Any] = []
        self.client.meta.events.register("before-call.kinesis", self._count)
        self.client.meta.events.register("provide-client-params.kinesis.ListStreams", self._note)

    def found(self) -> list[str]:
        """The names of the streams that discovery finds now."""
        return [stream.name for stream in self.source.find_streams("orders-", SHOP_TAG)]

    def _count(self, model: Any, **_: Any) -> None:
        self.calls[model.name] += 1

    def _note(self, params: Any, **_: Any) -> None:
        self.asked.append(params)


def test_further_pages_of_the_list_are_requested_by_their_token_alone():
    account = Account(230)
    assert [stream.name for stream in account.source.find_streams("orders-", {})] == account.names
    assert [set(each) for each in account.asked] == [set(), {"NextToken"}, {"NextToken"}]
    assert account.calls == {"ListStreams": 3}, "without tags in the settings no tags are requested"


def test_a_list_that_takes_longer_than_its_tokens_are_valid_is_tried_at_the_next_look():
    account = Account(130)
    account.client.meta.events.register(
        "after-call.kinesis.ListStreams", lambda **_: account.local.clock.advance(301)
    )
    with pytest.raises(Unreachable, match="the next look tries again"):
        account.source.find_streams(None, {})


def test_after_the_first_look_each_look_requests_the_tags_of_twenty_streams_in_turn():
    account = Account(50)
    assert account.found() == account.names
    assert account.calls["ListTagsForStream"] == 50
    for name in account.names:
        account.client.remove_tags_from_stream(StreamName=name, TagKeys=["team"])
    left = []
    for _ in range(3):
        account.calls.clear()
        left.append(len(account.found()))
        assert account.calls["ListTagsForStream"] == 20
    assert left == [30, 10, 0]


def test_tags_read_before_a_throttled_request_are_kept_for_the_next_look():
    account = Account(12, throttle=True)
    for _ in range(2):
        with pytest.raises(Throttled):
            account.found()
        account.local.clock.advance(1)
    assert account.found() == account.names, "at most five requests a second"


def test_known_tags_are_used_while_kinesis_throttles_and_each_stream_gets_its_turn():
    account = Account(12, throttle=True)
    for _ in range(2):
        with pytest.raises(Throttled):
            account.found()
        account.local.clock.advance(1)
    account.found()
    for name in account.names:
        account.local.clock.advance(1)
        account.client.remove_tags_from_stream(StreamName=name, TagKeys=["team"])
    left = []
    for _ in range(3):
        account.local.clock.advance(1)
        left.append(len(account.found()))
    assert left == [7, 2, 0]


def test_streams_that_are_being_created_or_deleted_are_not_discovered():
    account = Account(2, transition=60.0)
    account.client.create_stream(StreamName="orders-new", ShardCount=1)
    assert [s.name for s in account.source.find_streams("orders-", {})] == account.names
    account.local.clock.advance(61)
    assert [s.name for s in account.source.find_streams("orders-", {})] == [*account.names, "orders-new"]
    account.client.delete_stream(StreamName="orders-000")
    assert [s.name for s in account.source.find_streams("orders-", {})] == ["orders-001", "orders-new"]


def test_a_stream_that_is_deleted_between_the_list_and_its_tags_is_not_discovered():
    account = Account(2)

    def delete_a_listed_stream(**_: Any) -> None:
        if "orders-001" in account.client.list_streams()["StreamNames"]:
            account.client.delete_stream(StreamName="orders-001")

    account.client.meta.events.register_first("before-call.kinesis.ListTagsForStream", delete_a_listed_stream)
    assert account.found() == ["orders-000"]


def test_a_tag_on_a_later_page_of_tags_is_found():
    account = Account(1)
    account.client.add_tags_to_stream(StreamName="orders-000", Tags={f"a{n:02d}": "x" for n in range(10)})
    account.client.add_tags_to_stream(StreamName="orders-000", Tags={f"b{n:02d}": "x" for n in range(10)})

    def answer_four_tags_a_page(params: Any, **_: Any) -> None:
        params["Limit"] = 4

    account.client.meta.events.register(
        "provide-client-params.kinesis.ListTagsForStream", answer_four_tags_a_page
    )
    assert account.found() == ["orders-000"]
    assert account.calls["ListTagsForStream"] == 6


def test_a_role_without_the_right_to_list_streams_gets_an_error_that_says_so():
    account = Account(1)
    account.local.inject("error", operation="ListStreams", code="AccessDeniedException", status=400)
    with pytest.raises(Terminal, match="the list of streams: AWS refuses"):
        account.found()
