"""The streams of DynamoDB tables in the settings."""

from pathlib import Path

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.iam.places import Account, ApplicationArns
from headrace.pipeline.iam.roles import Role, statements_of
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import is_dynamodb, name_in, table_and_label

ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-11-27T05:00:00.000"


def read(folder: Path, stream: str, more: str = "") -> Settings:
    file = folder / "headrace.yaml"
    file.write_text(f"application: shop\nstreams: [{stream}]\nworkers: [{{id: w1}}]\n{more}")
    return read_settings(str(file), {}).settings


def test_the_arn_of_a_tables_stream_names_table_and_label(tmp_path: Path):
    settings = read(tmp_path, f"{{name: '{ARN}'}}")

    assert name_in(settings.streams[0].name) == "orders.stream.2026-11-27T05_00_00.000"
    assert settings.stream("orders.stream.2026-11-27T05_00_00.000") == settings.streams[0]
    assert table_and_label(name_in(ARN)) == ("orders", "2026-11-27T05:00:00.000")
    assert is_dynamodb(ARN)
    assert is_dynamodb(name_in(ARN))
    assert not is_dynamodb("orders.stream")


@pytest.mark.parametrize(
    ("stream", "more", "why"),
    [
        (f"{{name: '{ARN}', retrieval: fanout}}", "", "has no enhanced fan-out"),
        (f"{{name: '{ARN}'}}", "kcl: {failover: 60s}", "doesn't share a table's stream"),
        (f"{{name: '{ARN}'}}", "aws: {region: eu-west-1}", "is in us-east-1 by its ARN"),
        ("{name: 'arn:aws:dynamodb:us-east-1:123456789012:table/orders'}", "", "LatestStreamArn"),
        # As the tables of the stand-in, which are moto's, name their streams.
        (f"{{name: '{ARN}538'}}", "", "a label with milliseconds.* has no streams of tables"),
    ],
)
def test_what_a_tables_stream_doesnt_have_is_refused(tmp_path: Path, stream: str, more: str, why: str):
    with pytest.raises(BadSetting, match=why):
        read(tmp_path, stream, more)


def test_a_typed_table_may_take_dynamodbs_json_apart(tmp_path: Path):
    parse = """
parse:
  - name: orders
    table: lake.orders
    format: json
    schema: |
      eventName STRING,
      dynamodb STRUCT<
        Keys: STRUCT<id: STRUCT<S: STRING>>,
        NewImage: STRUCT<total: STRUCT<N: STRING>>
      >
"""

    assert read(tmp_path, f"{{name: '{ARN}'}}", parse).parse[0].name == "orders"


@pytest.mark.parametrize("role", [Role.LEADER, Role.WORKER, Role.SPARK])
def test_roles_that_read_have_the_rights_on_the_tables_stream(tmp_path: Path, role: Role):
    places = ApplicationArns(
        read(tmp_path, f"{{name: '{ARN}'}}"), Account("aws", "us-east-1", "123456789012")
    )

    (statement,) = [s for s in statements_of(role, places) if ARN in s.resources]

    assert statement.actions == (
        "dynamodb:DescribeStream",
        "dynamodb:GetShardIterator",
        "dynamodb:GetRecords",
    )
    assert places.streams == ()
