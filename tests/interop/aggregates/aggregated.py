"""Streams of aggregates, made by the libraries that make them: the Kinesis Producer Library (KPL) and AWS's two aggregators."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.eventually import eventually
from tests.interop.aggregates.kept_aggregates import FILE, keep
from tests.interop.aggregates.user_records import Put, Raw, Row, Seen, faults, only_whole
from tests.interop.build import KPL
from tests.interop.commands import empty_lake, headrace, settings_file
from tests.interop.landed import Lake
from tests.interop.producers import by_java, by_python, kpl, put
from tests.interop.records import Record
from tests.interop.scene import APP, REBALANCE, START, STREAM, Scene, Stage, scene
from tests.lake.aws_kinesis_agg import install, user_records

_A_SECOND = 300
_FEW_A_SECOND = 50
_STOP_AFTER = 100
_A_WHILE = 10.0
_CATCH_UP = 240.0
_LOOK = 1.0
_MOST_SHOWN = 10


def kpl_produces(stage: Stage) -> int:
    """The real KPL, AWS's Java aggregator and AWS's Python aggregator put user records while shards are split and merged.
    Headrace lands each user record once, in the order of the stream."""
    with scene("kpl", 3, stage) as play:
        lake, kinesis = empty_lake(play), play.traffic.kinesis
        install(str(play.fleet.folder / "aws-kinesis-agg"))
        others = iter([*by_java(20, 25), *by_python(20, 25)])
        puts: list[Put] = []
        with kpl(play, a_second=_A_SECOND) as producer:
            play.fleet.start_ours("h1", lake.home, alone="yes")
            eventually(
                lambda: len(producer.puts()) > 1000, "KPL has put a thousand user records", within=START
            )
            for change in (_split, _split, _merge, _split):
                puts += [
                    each for made, _ in zip(others, range(10), strict=False) for each in put(kinesis, made)
                ]
                change(play)
                time.sleep(_A_WHILE)
            producer.finish()
            puts += producer.puts()
        _judge(play, lake, puts, producer.tried_again())
        play.say(headrace("prove", "--config", str(settings_file(play, lake)), play=play))
        return play.fails


def _split(play: Scene) -> None:
    play.traffic.split(play.traffic.open_shards()[0])
    play.await_reshard()


def _merge(play: Scene) -> None:
    play.traffic.merge(*play.traffic.open_shards()[-2:])
    play.await_reshard()


def _judge(play: Scene, lake: Lake, puts: list[Put], tried_again: set[bytes]) -> None:
    kinesis = play.traffic.kinesis
    stream = {shard["ShardId"]: _records(kinesis, shard["ShardId"]) for shard in play.traffic.shards()}
    wanted = {record.sequence for each in stream.values() for record in each}
    _await(play, lambda: wanted <= lake.sequences(), "every Kinesis record landed")
    rows = lake.user_records()
    found = faults(puts, tried_again, stream, rows, _taken_apart)
    count = sum(map(len, rows.values()))
    what = (
        f"{len(puts)} user records in {len(wanted)} Kinesis records landed as {count} rows, once and in order"
    )
    play.check(bool(puts) and not found, what)
    for fault in found[:_MOST_SHOWN]:
        play.say(fault)
    if play.stage.keep_rows and not found:
        keep(play.traffic.shards(), stream, rows, kpl=KPL)
        play.say(f"aggregates kept in {FILE}")
    _judge_beside_kcl(play, [row for each in rows.values() for row in each])
    only = only_whole(puts, rows, _taken_apart)
    play.say(
        f"{len(only)} user records that KPL counts as put are only in aggregates that KCL drops and Headrace lands whole"
    )


def _judge_beside_kcl(play: Scene, rows: list[Row]) -> None:
    """A KCL worker of another application has to read the rows that have no `decode_error`, and no others."""
    ours = {(row.shard, row.sequence, str(row.sub), row.data.decode()) for row in rows if row.error is None}
    worker = play.fleet.start("k1", "3.5.1", app=f"{APP}-of-kcl")

    def by_kcl() -> set[tuple[str, ...]]:
        return {(event.shard, *event.more) for event in worker.events() if event.kind == "record"}

    _await(play, lambda: ours <= by_kcl(), "KCL has read every user record")
    theirs = by_kcl()
    whole = sum(row.error is not None for row in rows)
    what = f"KCL reads the same {len(theirs)} user records, and nothing of the {whole} aggregates that landed whole"
    play.check(ours == theirs, what)


def _await(play: Scene, holds: Callable[[], bool], what: str) -> None:
    """Wait, and go on to the check in any case: it tells what is wrong."""
    try:
        eventually(holds, what, within=_CATCH_UP, every=_LOOK)
    except TimeoutError as late:
        play.say(str(late))


def _taken_apart(shard: str, record: Raw) -> Iterator[Seen]:
    for sub, key, data in user_records(record.data, record.key):
        yield Seen(shard, record.sequence, sub, key, data)


def _records(kinesis: Any, shard: str) -> list[Raw]:
    """All records of a shard, as Kinesis has them."""
    found: list[Raw] = []
    at = kinesis.get_shard_iterator(StreamName=STREAM, ShardId=shard, ShardIteratorType="TRIM_HORIZON")[
        "ShardIterator"
    ]
    while at:
        page = kinesis.get_records(ShardIterator=at)
        found += [Raw(each["SequenceNumber"], each["PartitionKey"], each["Data"]) for each in page["Records"]]
        at = page.get("NextShardIterator") if page["Records"] or page["MillisBehindLatest"] else None
    return found


def inside_aggregates(stage: Stage) -> int:
    """KCL 3.4.2 checkpoints inside aggregates of the real KPL and is stopped. Headrace adopts the application, reads on with the next
    user record of each aggregate, and gives the application back; KCL reads on after Headrace."""
    with scene("inside aggregates", 3, stage) as play:
        lake, traffic = empty_lake(play), play.traffic
        config = str(settings_file(play, lake))
        with kpl(play, a_second=_FEW_A_SECOND) as producer:
            play.fleet.start("k1", "3.4.2", stopAfter=str(_STOP_AFTER))
            open_shards = set(traffic.open_shards())
            stops = "KCL has stopped inside an aggregate of each shard"
            eventually(lambda: set(_stopped_inside(play)) == open_shards, stops, within=START + REBALANCE)
            play.fleet.workers["k1"].stop()
            play.say(f"{stops}: {_stopped_inside(play)}")
            stood = [row["checkpointSubSequenceNumber"]["N"] for row in play.rows.tables()[APP]]
            play.check(
                sorted(stood) == sorted(_stopped_inside(play).values()), "KCL's rows have these checkpoints"
            )
            play.say(headrace("adopt", "--config", config, "--watch", "10s", "--yes", play=play))
            play.fleet.start_ours("h1", lake.home, alone="yes")
            play.await_readers(START, "h1")
            play.fleet.workers["h1"].stop()
            play.say(headrace("give-back", "--config", config, "--yes", play=play))
            play.fleet.start("k2", "3.4.2")
            play.await_readers(START + REBALANCE, "k2")
            producer.finish()
            traffic.put |= {
                put.payload.decode(): Record(put.shard, put.sequence, put.payload.decode())
                for put in producer.puts()
            }
        play.finish(lake)
        doubled = play.verdict(lake).kcl_doubled
        play.check(doubled == 0, "nothing was read twice by KCL on the way there and back")
        return play.fails


def _stopped_inside(play: Scene) -> dict[str, str]:
    """The sub-sequence number at which KCL stopped in each shard."""
    return {event.shard: event.more[1] for event in play.fleet.events() if event.kind == "inside"}


AGGREGATED: dict[str, Callable[[Stage], int]] = {
    "kpl": kpl_produces,
    "inside-aggregates": inside_aggregates,
}
