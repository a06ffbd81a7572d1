"""Aggregates that the real Kinesis Producer Library and AWS's aggregators made are read as `make interop` has seen them read by KCL and
by aws-kinesis-agg, without Java."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.pipeline.kcl.deaggregate import OUTSIDE, unpack
from headrace.pipeline.lake.staging.aggregate_walk import user_records
from headrace.pipeline.lake.staging.aggregates import taken_apart
from tests.interop.aggregates.kept_aggregates import Kept, kept
from tests.lake.kpl_pages import a_batch_of, rows_in

KEPT = kept()


def _name(each: Kept) -> str:
    return f"{each.made_by.replace(' ', '-')}-{len(each.rows)}-rows-{len(each.data)}-bytes"


@pytest.mark.parametrize("each", KEPT, ids=_name)
def test_an_aggregate_of_a_real_library_becomes_these_rows(each: Kept):
    page = a_batch_of([each.data])
    page = page.set_column(
        page.schema.get_field_index("partition_key"), "partition_key", pa.array([each.key])
    )
    found = [row[1:] for row in rows_in(list(taken_apart(page, each.shard)))]
    assert found == each.rows


@pytest.mark.parametrize("each", KEPT, ids=_name)
def test_the_parser_with_kcls_rules_finds_the_same_user_records(each: Kept):
    unpacked = unpack(each.data, each.key, each.shard)
    wanted = [row for row in each.rows if row[4] is None]
    assert [
        (one.sub, one.partition_key, one.explicit_hash_key, one.data, None) for one in unpacked.records
    ] == wanted
    assert unpacked.broken == each.rows[0][4]


def test_real_libraries_write_the_form_that_is_read_in_bulk():
    inside = [each for each in KEPT if each.rows[0][4] is None]
    for each in inside:
        users = user_records(each.data, np.array([0, len(each.data)]), [0], each.shard)
        assert len(users.record) == len(each.rows), each.made_by


def test_the_fixture_has_each_library_and_an_aggregate_outside_of_its_shard():
    libraries = {each.made_by.partition(" ")[0] for each in KEPT}
    assert libraries == {"amazon-kinesis-producer", "amazon-kinesis-aggregator", "aws-kinesis-agg"}
    of_kpl = [each for each in KEPT if each.made_by.startswith("amazon-kinesis-producer")]
    assert any(each.rows[0][4] == OUTSIDE for each in of_kpl)
    assert any(row[2] is not None for each in of_kpl for row in each.rows)
    assert any(row[2] is None and row[4] is None for each in of_kpl for row in each.rows)
