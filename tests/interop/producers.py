"""Producers of aggregates: the real Kinesis Producer Library (KPL), AWS's Java aggregator, and AWS's Python aggregator."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.interop.aggregates.user_records import Put
from tests.interop.build import producers_class_path
from tests.interop.scene import STREAM, Scene
from tests.interop.tls import tls_before
from tests.lake.aws_kinesis_agg import aggregate_of

_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_MAIN = "headrace.interop."
_END_SECONDS = 180.0


class ProducerFailed(Exception):
    """A producer didn't put what it was to put. The message is what it said."""


@dataclass(frozen=True, slots=True)
class Kpl:
    """A process that puts user records until `finish`. See Producer.java for what it prints."""

    process: subprocess.Popen[bytes]
    output: Path

    def puts(self) -> list[Put]:
        """The user records of which KPL has said so far that Kinesis took them."""
        return [
            Put(shard, sequence, key, None if hash_key == "-" else hash_key, payload.encode())
            for _, payload, key, hash_key, shard, sequence, _ in self._put()
        ]

    def tried_again(self) -> set[bytes]:
        """The payloads that KPL put more than once. It does so if an aggregate went to another shard than KPL had expected."""
        return {payload.encode() for _, payload, *_, attempts in self._put() if int(attempts) > 1}

    def finish(self) -> None:
        """Wait until each user record has been put."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        code = self.process.wait(_END_SECONDS)
        lines = self._lines()
        failed = [line for line in lines if line[0] == "failed"]
        if code or failed or not lines or lines[-1] != ["ended"]:
            raise ProducerFailed(
                f"KPL ended with {code}, {len(failed)} user records failed: {failed[:3]}; see {self.output}"
            )

    def _put(self) -> list[list[str]]:
        return [line for line in self._lines() if line[0] == "put"]

    def _lines(self) -> list[list[str]]:
        return [line.split("\t") for line in self.output.read_text().rpartition("\n")[0].splitlines()]


@contextmanager
def kpl(play: Scene, *, a_second: int) -> Iterator[Kpl]:
    """The real KPL, which puts so many user records a second, at the other end of a TLS proxy before the stand-in."""
    output = play.fleet.folder / "kpl.puts"
    # KPL can't make its pipes in a folder with a blank in its name.
    with TemporaryDirectory(prefix="kpl-") as folder, tls_before(play.fleet.endpoint, Path(folder)) as port:
        with output.open("wb") as out, output.with_suffix(".log").open("wb") as log:
            arguments = [STREAM, str(port), folder, str(a_second)]
            process = subprocess.Popen(
                [*_JAVA, "-cp", producers_class_path(), f"{_MAIN}Producer", *arguments],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
                env=play.fleet.environment,
            )
        try:
            yield Kpl(process, output)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


class Made(NamedTuple):
    """An aggregate that isn't put yet. All its user records have one partition key."""

    key: str
    hash_key: str | None
    payloads: tuple[bytes, ...]
    data: bytes


def by_java(aggregates: int, each: int) -> list[Made]:
    """Aggregates by com.amazonaws:amazon-kinesis-aggregator."""
    command = [*_JAVA, "-cp", producers_class_path(), f"{_MAIN}Aggregates", str(aggregates), str(each)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    made = []
    for n, line in enumerate(printed.splitlines()):
        key, hash_key, digits = line.split("\t")
        payloads = tuple(b"java-%d-%d" % (n, m) for m in range(each))
        made.append(Made(key, hash_key, payloads, bytes.fromhex(digits)))
    return made


def by_python(aggregates: int, each: int) -> list[Made]:
    """Aggregates by PyPI's aws-kinesis-agg, which has to be installed."""
    names = [(f"python-{n}", tuple(b"python-%d-%d" % (n, m) for m in range(each))) for n in range(aggregates)]
    return [Made(key, None, payloads, aggregate_of(key, payloads)) for key, payloads in names]


def put(kinesis: Any, made: Made) -> list[Put]:
    explicit = {} if made.hash_key is None else {"ExplicitHashKey": made.hash_key}
    answer = kinesis.put_record(StreamName=STREAM, PartitionKey=made.key, Data=made.data, **explicit)
    shard, sequence = answer["ShardId"], answer["SequenceNumber"]
    return [Put(shard, sequence, made.key, made.hash_key, payload) for payload in made.payloads]
