"""The stream of a DynamoDB table: AWS's own adapter for KCL, and Headrace, on AWS's DynamoDB Local."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config

from tests.contract.dynamodb_local.__main__ import fetch, served
from tests.eventually import eventually
from tests.interop.fleet import Fleet
from tests.interop.landed import Lake
from tests.interop.meanwhile import meanwhile
from tests.interop.scene import START, Stage

_TABLE = "orders"
_ITEMS = 200
_EVERY_SECONDS = 0.1
_CATCH_UP = 240.0
_LOOK = 1.0
Change = tuple[str, int, str]
"""Shard, sequence number, and what happened: INSERT, MODIFY or REMOVE. The adapter leaves leading zeros of a number, and a position
of Headrace has none."""


@dataclass
class TableScene:
    """A table that changes, and the applications that read its stream."""

    client: Any
    fleet: Fleet
    lake: Lake
    dice: random.Random = field(default_factory=lambda: random.Random(28))
    changes: int = 0
    fails: int = 0

    def say(self, text: str) -> None:
        print(f"table-stream: {text}", flush=True)

    def check(self, holds: bool, what: str) -> None:  # noqa: FBT001
        self.fails += not holds
        self.say(f"{'ok' if holds else 'FAILED'}: {what}")

    def change(self) -> None:
        for _ in range(5):
            self.changes += 1
            key = {"id": {"S": f"item {self.dice.randrange(_ITEMS)}"}}
            if self.dice.random() < 0.2:
                self.client.delete_item(TableName=_TABLE, Key=key)
            else:
                self.client.put_item(TableName=_TABLE, Item={**key, "value": {"N": str(self.changes)}})

    def roll_over(self) -> None:
        """Close the open shards, as DynamoDB does every four hours."""
        self.client.put_item(TableName="[TEST_CONTROL]", Item={"ACTION": {"S": "ROLLOVER"}})

    def by_adapter(self) -> list[Change]:
        return [
            (event.shard, int(event.more[0]), event.more[2])
            for event in self.fleet.events()
            if event.kind == "record"
        ]

    def by_us(self) -> list[Change]:
        return [
            (record.shard, record.number, json.loads(record.payload)["eventName"])
            for record in self.lake.records()
        ]

    def newest(self) -> dict[str, Any]:
        """The image of each item after its newest change in the lake table."""
        images: dict[str, Any] = {}
        for record in sorted(self.lake.records(), key=lambda record: record.number):
            change = json.loads(record.payload)["dynamodb"]
            images[change["Keys"]["id"]["S"]] = change.get("NewImage")
        return {item: image for item, image in images.items() if image}

    def scanned(self) -> dict[str, Any]:
        pages = self.client.get_paginator("scan").paginate(TableName=_TABLE)
        return {item["id"]["S"]: item for page in pages for item in page["Items"]}

    def agree(self) -> bool:
        """Whether both have read the same changes, and the newest ones are what the table has."""
        ours, theirs = set(self.by_us()), set(self.by_adapter())
        return bool(ours) and ours == theirs and self.newest() == self.scanned()


def table_stream(stage: Stage) -> int:
    """KCL with AWS's adapter and Headrace read the stream of a table under random changes, through two roll-overs, and a worker of
    Headrace is killed."""
    with table_scene(stage) as play:
        with meanwhile(play.change, "the producer", every=_EVERY_SECONDS):
            play.fleet.start_adapter("a1", "by-adapter")
            _start(play, "h1")
            eventually(lambda: bool(play.by_adapter()), "the adapter reads", within=START)
            eventually(lambda: bool(play.by_us()), "h1 reads", within=START)
            for _ in range(2):
                play.roll_over()
                _after_now(play)
            play.fleet.workers["h1"].kill()
            _start(play, "h2")
            _after_now(play)
        try:
            eventually(play.agree, "both have read the same changes", within=_CATCH_UP, every=_LOOK)
        except TimeoutError as late:
            play.say(str(late))
        ours, theirs = Counter(play.by_us()), Counter(play.by_adapter())
        shards = len({shard for shard, _, _ in ours})
        play.check(
            bool(ours) and set(ours) == set(theirs),
            f"both have read the same {len(ours)} changes in {shards} shards",
        )
        play.check(max(ours.values()) == 1, "none landed twice")
        play.check(play.newest() == play.scanned(), "the newest change of each item is what the table has")
        play.check(shards > 1, "the stream rolled over")
        return play.fails


@contextmanager
def table_scene(stage: Stage) -> Iterator[TableScene]:
    """Set up a table with a stream, and leave no process running at its end."""
    fetch()
    place = stage.folder / "table-stream"
    with served() as endpoint:
        # The table name of the test control has brackets, which boto3 would refuse.
        client: Any = boto3.client(
            "dynamodb",
            "us-east-1",
            endpoint_url=endpoint,
            aws_access_key_id="local",
            aws_secret_access_key="local",
            config=Config(parameter_validation=False),
        )
        client.create_table(
            TableName=_TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        arn = client.describe_table(TableName=_TABLE)["Table"]["LatestStreamArn"]
        lake = Lake(place / "lake")
        with Fleet("by-headrace", arn, endpoint, place) as fleet:
            shutil.rmtree(lake.home, ignore_errors=True)
            for old in place.glob("*.events"):
                old.unlink()
            yield TableScene(client, fleet, lake)


def _start(play: TableScene, worker: str) -> None:
    play.fleet.start_ours(worker, play.lake.home, alone="yes", region="ddblocal")


def _after_now(play: TableScene) -> None:
    """Wait until both have read what was changed before now."""
    newest = max(sequence for _, sequence, _ in play.by_adapter())

    def is_past() -> bool:
        return all(
            any(sequence > newest for _, sequence, _ in read) for read in (play.by_adapter(), play.by_us())
        )

    eventually(is_past, "both have read on", within=_CATCH_UP, every=_LOOK)
    play.say("both have read on")


OF_TABLE: dict[str, Callable[[Stage], int]] = {"table-stream": table_stream}
