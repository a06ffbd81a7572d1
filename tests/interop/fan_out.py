"""Enhanced fan-out: KCL reads as it does by default, and Headrace reads the same stream by a consumer of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.certificate import a_certificate, trusted_by_java
from tests.eventually import eventually
from tests.interop.commands import empty_lake
from tests.interop.landed import Lake
from tests.interop.records import Record
from tests.interop.scene import APP, REBALANCE, START, STREAM, Scene, Stage, scene

_OURS = f"{APP}-of-headrace"
_CONSUMER = "headrace"
_CATCH_UP = 240.0
_LOOK = 1.0
_PASSWORD = "unimportant"
_FAULTS: tuple[dict[str, str | int], ...] = (
    {"kind": "cut", "count": 6},
    {"kind": "bad_crc", "count": 6},
    {"kind": "end", "count": 6},
    {"kind": "silence", "count": 2},
    {"kind": "exception", "count": 6, "code": "InternalFailureException"},
    {"kind": "exception", "count": 6, "code": "ResourceInUseException"},
    {"kind": "error", "count": 4, "code": "LimitExceededException", "status": 400},
)
"""The library takes a ResourceNotFoundException for the end of a shard, so that is left out."""


def fan_out(stage: Stage) -> int:
    """An application of KCL 3.5.1 with its default retrieval, over HTTP/2 in the clear and by TLS, and one of Headrace with a
    consumer of its own: a split, a merge, subscriptions that break in every way, and a KCL worker is killed."""
    with TemporaryDirectory(prefix="tls-") as folder:
        certificate, key = a_certificate(Path(folder))
        options = ("--tls", str(certificate), str(key))
        with scene("fan-out", 4, stage, options=options) as play:
            lake = empty_lake(play)
            with play.traffic.flowing():
                play.fleet.start("k1", "3.5.1", retrieval="default")
                _start_by_tls(play, "k2", certificate)
                play.fleet.start_ours(
                    "h1", lake.home, alone="yes", app=_OURS, retrieval="fanout", consumer=_CONSUMER
                )
                eventually(lambda: _workers(play) == {"k1", "k2"}, "k1 and k2 read", within=START + REBALANCE)
                eventually(lambda: bool(lake.records()), "h1 reads", within=START)
                _go_through_trouble(play, lake)
                play.traffic.split("shardId-000000000000")
                play.await_reshard()
                _catch_up(play, lake, "all records of before the split came out of both")
                play.traffic.merge(*play.traffic.open_shards()[-2:])
                play.await_reshard()
                play.fleet.workers["k1"].kill()
                _catch_up(play, lake, "all records of before the merge came out of both, of KCL by k2")
            _judge(play, lake)
            return play.fails


def _start_by_tls(play: Scene, name: str, certificate: Path) -> None:
    """Start a KCL worker that speaks TLS with Kinesis, and trusts this certificate only."""
    trusted = trusted_by_java(certificate, _PASSWORD)
    java = [f"-Djavax.net.ssl.trustStore={trusted}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]
    endpoint = str(play.aws.tls_endpoint)
    play.fleet.start(name, "3.5.1", java=java, retrieval="default", kinesis=endpoint)


def _go_through_trouble(play: Scene, lake: Lake) -> None:
    for fault in _FAULTS:
        play.aws.inject(str(fault["kind"]), operation="SubscribeToShard", skip=5, **_without_kind(fault))
    struck = "every fault struck"
    eventually(
        lambda: all(fault["taken"] == fault["count"] for fault in play.aws.faults()), struck, within=_CATCH_UP
    )
    play.say(f"{struck}: {', '.join(str(fault['kind']) for fault in _FAULTS)}")
    _catch_up(play, lake, "all records of before the last fault came out of both")


def _without_kind(fault: dict[str, str | int]) -> dict[str, str | int]:
    return {name: value for name, value in fault.items() if name != "kind"}


def _workers(play: Scene) -> set[str]:
    return {event.worker for event in play.seen()}


def _by_kcl(play: Scene) -> list[Record]:
    return [event.record for event in play.seen() if event.record is not None]


def _catch_up(play: Scene, lake: Lake, what: str) -> None:
    """Wait until the records that have been put so far came out of both applications."""
    put = set(play.traffic.put.values())
    eventually(
        lambda: put <= set(_by_kcl(play)) and put <= set(lake.records()), what, within=_CATCH_UP, every=_LOOK
    )
    play.say(what)


def _judge(play: Scene, lake: Lake) -> None:
    try:
        _catch_up(play, lake, "all records came out of both")
    except TimeoutError as late:
        play.say(str(late))
    put = set(play.traffic.put.values())
    ours, theirs = lake.records(), _by_kcl(play)
    play.check(bool(put) and set(theirs) == put, f"KCL has read the {len(put)} records, and no others")
    play.say(f"{_doubled(theirs)} of them came twice to KCL, which promises each at least once")
    what = f"Headrace has landed the {len(put)} records, and no others"
    play.check(set(ours) == put, what)
    play.check(_doubled(ours) == 0, f"Headrace has landed none of its {len(ours)} records twice")
    arn = play.traffic.kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"][
        "StreamARN"
    ]
    listed = play.traffic.kinesis.list_stream_consumers(StreamARN=arn)["Consumers"]
    names = {consumer["ConsumerName"] for consumer in listed}
    play.check(names == {APP, _CONSUMER}, "each application has a consumer of its own")


def _doubled(records: Iterable[Record]) -> int:
    return sum(times - 1 for times in Counter(records).values())


FAN_OUT: dict[str, Callable[[Stage], int]] = {"fan-out": fan_out}
