"""The number of settings is limited, shipped code reads each of them, and those of KCL are in one block."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from headrace.pipeline.cli.views.settings_doc import knob_tables
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.values import knobs
from tests.syntax import tree_of

ROOT = Path(__file__).parents[2]
KNOBS = [key for key, *_ in knobs(Settings, index="N")]
MOST = 185
"""90, the four of fan-out, the nineteen of Dagster's assets, checks, schedules and pools, the six of metrics, the twenty-two of a target of `parse`, the twenty-four of a processor (each of both is a table of its own, with its own schema and rules), and the
seventeen by which Kinesis, DynamoDB, CloudWatch and a stream are asked elsewhere, or by a role, and the two that name code of the user's own: hooks, and a list of streams; and the one that hands what isn't a setting to botocore."""
SHIPPED = ("pipeline", "assets", "kclpy", "resources", "sensors")
VIA_A_PROPERTY = {
    "streams_mode": "multi",
    "parse.N.unique.by": "key_columns",
    "parse.N.into": "is_latest",
    "parse.N.latest.key": "latest_key",
    "parse.N.latest.delete_when": "deletes_when",
    "kcl.failover": "is_shared",
    "processors.N.consumer": "consumer_of",
    "processors.N.failover": "is_shared",
    "processors.N.leases": "kcl",
    **{
        f"aws.{service}.{name}": "of"
        for service in ("kinesis", "dynamodb", "cloudwatch")
        for name in ("region", "endpoint", "profile", "role", "external_id")
    },
    "coordination.lease_table": "lease_table",
    "coordination.worker_table": "worker_table",
    "coordination.state_table": "state_table",
}
"""Settings that are read by a property of `Settings`."""


def test_there_are_no_more_settings_than_were_decided() -> None:
    rows = [line for line in knob_tables().splitlines() if line.startswith("| `")]
    assert len(rows) == len(KNOBS) <= MOST


@cache
def _reads() -> frozenset[tuple[str, str]]:
    """Each attribute that shipped code outside of pipeline/settings reads, with the expression before its dot."""
    files = (file for room in SHIPPED for file in (ROOT / room).rglob("*.py"))
    trees = (tree_of(file) for file in files if file.parent.name != "settings")
    return frozenset(read for tree in trees for read in _reads_in(tree))


def _reads_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            holder = node.value
            match holder:
                case ast.Attribute():
                    yield holder.attr, node.attr
                case ast.Name():
                    yield holder.id, node.attr


HOLDERS = {
    "": {"settings"},
    "streams.N": {"stream", "how", "settings", "each", "s"},
    "workers.N": {"worker", "w", "settings"},
    "workers.N.spark": {"spark", "settings"},
    "discovery": {"discovery", "how"},
    "former_streams_delete": {"settings"},
    "landing": {"landing"},
    "aws": {"aws", "settings"},
    "upkeep": {"upkeep", "settings"},
    "dagster.freshness": {"asked"},
    "dagster.backfill": {"backfill"},
    "dagster.schedules": {"schedules"},
    "dagster.checks": {"checks", "limits"},
    "parse.N": {"target", "settings"},
    "parse.N.inflated": {"inflated"},
    "parse.N.unique": {"unique"},
    "processors.N": {"processor", "settings"},
    "processors.N.limits": {"limits"},
    "wave": {"wave", "budget"},
}
"""The variable names that code uses for a section of the settings. Other sections are only used by their own name."""


@pytest.mark.parametrize("key", KNOBS)
def test_each_setting_is_read_by_shipped_code(key: str) -> None:
    section, _, name = key.removesuffix(".N").rpartition(".")
    if via := VIA_A_PROPERTY.get(key):
        section, name = "", via
    holders = HOLDERS.get(section, {section})
    assert any((holder, name) in _reads() for holder in holders), f"no shipped code reads {key}"


def test_a_setting_that_no_code_reads_would_be_found() -> None:
    assert ("times", "linger") in _reads()
    assert ("times", "lingered") not in _reads()
    assert list(_reads_in(ast.parse("times.linger = 5"))) == []


def test_only_the_block_kcl_mentions_kcl() -> None:
    """KCL's name for a setting has a column of its own. The meaning of a setting is described without KCL."""
    kcls = {"KCL", "variance", "2.x", "heartbeat", "foreign"}
    elsewhere = {
        key: spec.metadata["doc"]
        for key, spec, _ in knobs(Settings, index="N")
        if not key.startswith("kcl.") and any(word in spec.metadata["doc"] for word in kcls)
    }
    # The choice of a strategy, defaults that differ from KCL's, and a consumer that must not be a KCL fleet's.
    assert set(elsewhere) == {
        "assignment.strategy",
        "metrics.level",
        # A processor that is an application of KCL's kind itself.
        "processors.N.application",
        "processors.N.consumer",
        "processors.N.failover",
        "processors.N.mode",
        "streams.N.consumer",
        "streams.N.initial_position",
        "streams.N.retrieval",
    }
