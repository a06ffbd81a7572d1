"""What does it cost to take aggregates of the Kinesis Producer Library (KPL) apart? CPU microseconds a user record, in one process.

    python bench/aggregates.py            # nine readings of each
    python bench/aggregates.py --quick    # five readings; both print the same, and exit 1 where a limit is missed

The measure is PyPI's aws-kinesis-agg, AWS's own library, which pip installs into a temporary folder. It gets the records in the form
that it wants (base64, as Lambda has them) and returns a dictionary for each user record. Headrace gets a page of Arrow columns and
returns columns, and both are held to the same user records first. The cheapest reading of each counts.

KCL and Headrace also check that each user record's hash key is inside of the shard, an MD5 for each distinct key, which the library
doesn't.
`gain` is without that check, as in a stream with one shard; `checked` and `gain` behind it are with it.

Limits: over all forms together a third of the library's CPU at most for the same work, and for pages without an aggregate at most
5 % of what it costs to write their rows.
"""

from __future__ import annotations

import argparse
import base64
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from headrace.pipeline.core.ledger.batch import Batch, BatchLimits
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.staging.aggregates import taken_apart
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.ports.pages import RecordPage
from headrace.pipeline.ports.staging import StagingSpec
from tests.kcl.kpl import entry, message, sealed
from tests.lake.aws_kinesis_agg import PACKAGE, as_lambda_has_it, deaggregated, install
from tests.lake.kpl_pages import a_batch_of
from tests.lake.samples import a_key

_LEAST, _MOST = 3.0, 0.05
_SHARD = HashRange(0, MAX_HASH_KEY - 1)
"""All but one hash key: each user record has to be looked at."""
_USER_RECORDS = 20_000


@dataclass(frozen=True)
class Form:
    users: int
    """User records in one aggregate."""
    payload: int
    keys: int
    """How many partition keys the stream has."""

    def __str__(self) -> str:
        keys = {_ANY: "a key each", 1: "one key for all"}.get(self.keys, f"of {self.keys:,} keys")
        return f"{self.users:>4} of {self.payload:>5} B, {keys}"

    def datas(self) -> list[bytes]:
        dice = random.Random(self.users)
        return [self._aggregate(dice) for _ in range(_USER_RECORDS // self.users)]

    def _aggregate(self, dice: random.Random) -> bytes:
        count = 1 if self.keys == 1 else self.users
        keys = tuple(b"customer-%09d" % dice.randrange(self.keys) for _ in range(count))
        entries = (entry(n % len(keys), dice.randbytes(self.payload)) for n in range(self.users))
        return sealed(message(*entries, keys=keys))


_ANY = 10**9
_FORMS = (
    Form(250, 200, _ANY),
    Form(250, 200, 1000),
    Form(250, 200, 1),
    Form(10, 200, _ANY),
    Form(50, 1024, _ANY),
)


def _cheapest(work: Callable[[], object], readings: int) -> float:
    taken = []
    for _ in range(readings):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)


def _check_same(parts: list[pa.RecordBatch], theirs: list[dict[str, Any]]) -> None:
    ours = [
        (row["sub_sequence_number"], row["partition_key"], row["data"])
        for part in parts
        for row in part.to_pylist()
    ]
    found = [
        (each["kinesis"]["subSequenceNumber"], each["kinesis"]["partitionKey"], each["kinesis"]["data"])
        for each in theirs
    ]
    if ours != [(sub, key, base64.b64decode(data)) for sub, key, data in found]:
        raise SystemExit("Headrace and aws-kinesis-agg found different user records")


def _of_aggregates(readings: int) -> float:
    """Print a line for each form. Returns how many times fewer CPU seconds Headrace takes over all of them."""
    print(f"CPU us a user record\n  {'aggregates':32} aws-kinesis-agg  headrace   gain   checked   gain")
    sums = [0.0, 0.0, 0.0]
    for form in _FORMS:
        datas = form.datas()
        page, records = a_batch_of(datas), [as_lambda_has_it(n, data) for n, data in enumerate(datas)]
        _check_same(list(taken_apart(page, _SHARD)), deaggregated(records))
        works = (
            partial(deaggregated, records),
            partial(_taken_apart, page, None),
            partial(_taken_apart, page, _SHARD),
        )
        taken = [_cheapest(work, readings) for work in works]
        sums = [each + more for each, more in zip(sums, taken, strict=True)]
        _print(str(form), taken, _USER_RECORDS)
    _print("all together", sums, _USER_RECORDS * len(_FORMS))
    return sums[0] / sums[1]


def _taken_apart(page: pa.RecordBatch, shard: HashRange | None) -> list[pa.RecordBatch]:
    return list(taken_apart(page, shard))


def _print(what: str, taken: list[float], count: int) -> None:
    peer, plain, checked = (seconds / count * 1e6 for seconds in taken)
    print(
        f"  {what:32} {peer:>15.2f} {plain:>9.2f} {peer / plain:>5.1f}x {checked:>9.2f} {peer / checked:>5.1f}x",
        flush=True,
    )


@dataclass(frozen=True)
class _Ready:
    """A shard whose pages are decoded already."""

    page: RecordPage
    pages: int

    def pages_of(self) -> Iterator[RecordPage]:
        for number in range(self.pages):
            yield replace(self.page, behind=timedelta(seconds=self.pages - 1 - number))


class _Pages:
    def __init__(self, ready: _Ready) -> None:
        self._ready = ready

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        return self._ready.pages_of()


def _of_plain_records(readings: int) -> float:
    """What part of the cost of writing plain records it is to look for aggregates among them."""
    dice, count, pages = random.Random(1), 10_000, 8
    datas = [dice.randbytes(100) + b"x" * 100 for _ in range(count)]
    now = datetime.now(UTC)
    records = a_batch_of(datas)
    page = RecordPage(
        records=records,
        rows=count,
        bytes=200 * count,
        answered=now,
        behind=timedelta(0),
        last_sequence=count,
        first_arrival=now,
        last_arrival=now,
        children=None,
    )
    names = [*records.schema.names, SORT_KEY]

    def write() -> None:
        with tempfile.TemporaryDirectory() as folder:
            batch = Batch(a_key(), None, TRIM, now, timedelta(days=1))
            spec = StagingSpec(folder, tuple((name, i) for i, name in enumerate(names, 1)))
            limits = BatchLimits(10**9, 10**12, 3600.0)
            stage_batches([batch], _Pages(_Ready(page, pages)), spec=spec, limits=limits, threads=1)

    def look() -> None:
        for _ in range(pages):
            _taken_apart(records, _SHARD)

    looking, writing = _cheapest(look, readings), _cheapest(write, readings)
    each = [f"{seconds / count / pages * 1e6:.3f}" for seconds in (looking, writing)]
    print(
        f"plain records of 200 B: {each[0]} us a record to look for aggregates, {each[1]} us to write it: {looking / writing:.1%}"
    )
    return looking / writing


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU a user record of taking aggregates apart")
    parser.add_argument("--quick", action="store_true", help="five readings of each, not nine")
    readings = 5 if parser.parse_args().quick else 9
    with tempfile.TemporaryDirectory() as folder:
        install(folder)
        gain = _of_aggregates(readings)
    cost = _of_plain_records(readings)
    if gain < _LEAST:
        print(
            f"over all forms Headrace takes {gain:.1f} times fewer CPU seconds than {PACKAGE}, and not {_LEAST:g}"
        )
    if cost > _MOST:
        print(f"plain records pay {cost:.1%} of their writing, and not {_MOST:.0%} at most")
    return int(gain < _LEAST or cost > _MOST)


if __name__ == "__main__":
    sys.exit(main())
