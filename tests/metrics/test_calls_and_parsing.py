"""Requests to AWS, and waves of typed tables: counted by the clients' meter, and where a wave tells of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.aws.clients.meter import Meter
from headrace.pipeline.metrics import own_series as own
from headrace.pipeline.metrics.gathering import Gathering
from headrace.pipeline.metrics.of_calls import CallCounts
from headrace.pipeline.metrics.series import Level
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.metrics import DIMENSIONS
from headrace.pipeline.typed.done_wave import Does, Wave
from tests.metrics.http_answers import Answer, answering
from tests.metrics.metered_world import MeteredWorld
from tests.typed.parsings import BAD, A, Bed, good

THROTTLED = Answer(400, b'{"__type":"ThrottlingException","message":"slower"}')


@pytest.mark.usefixtures("no_backoff")
def test_each_try_of_a_request_counts_and_each_refusal_for_too_many() -> None:
    gathering = Gathering(level=Level.DETAILED, dimensions=DIMENSIONS, most=100)
    meter = Meter()
    counts = CallCounts(meter)
    with answering() as server:
        server.answer = lambda number: THROTTLED if number <= 2 else Answer(body=b'{"TableNames": []}')
        client = dynamodb_client(AwsSettings(region="eu-west-1", endpoint=server.url), meter)
        assert client.list_tables()["TableNames"] == []
        counts.add_to(gathering)
    sums = {datum.series: (datum.dimensions[1:], datum.statistics.total) for datum in gathering.take()}
    call = (("Call", "dynamodb:ListTables"),)
    assert sums == {own.CALLS: (call, 3), own.THROTTLES: (call, 2)}
    counts.add_to(gathering)
    assert gathering.take() == [], "what was added once isn't added again"


def test_a_wave_of_a_typed_table_tells_what_it_parsed_and_set_aside(tmp_path: Path) -> None:
    bed = Bed(tmp_path)
    bed.land(A, {1: good(1), 2: BAD, 3: good(3)})
    told: list[Wave] = []
    parsing = replace(bed.parsing(), on_wave=told.append)
    list(parsing.waves())
    assert [(wave.landed, wave.aside) for wave in told] == [(2, 1)]


def test_rows_that_were_parsed_and_set_aside_are_sent_by_target() -> None:
    metered = MeteredWorld()
    metered.wiring.targets.on_wave("orders", Wave(Does.PARSE, rows=9, landed=7, snapshot=1))
    assert metered.of(own.ROWS_PARSED, Target="orders").total == 7
    assert metered.of(own.ROWS_QUARANTINED, Target="orders").total == 2
    metered.close()
