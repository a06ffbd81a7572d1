"""A typed table of images that the table's stream doesn't have."""

import pytest

from headrace.pipeline.doctor.diagnosis import Health
from headrace.pipeline.doctor.images import lacking_images
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.settings.model import Settings, StreamSettings

ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-11-27T05:00:00.000"
STREAM = "orders.stream.2026-11-27T05_00_00.000"
IMAGES = ParseSettings(
    name="now",
    table="lake.now",
    format=ParseFormat.DYNAMODB,
    schema="eventName STRING, NewImage STRUCT<id: STRING>, OldImage MAP<STRING, STRING>",
)


def told(view: str | None, *targets: ParseSettings) -> list[str]:
    settings = Settings(application="shop", streams=(StreamSettings(name=ARN),), parse=targets)
    diagnoses = list(lacking_images(settings, STREAM, view))
    assert all(diagnosis.health is Health.ILL for diagnosis in diagnoses)
    return [diagnosis.sentence for diagnosis in diagnoses]


@pytest.mark.parametrize(
    ("view", "lacking"),
    [("KEYS_ONLY", "NewImage and OldImage"), ("NEW_IMAGE", "OldImage"), ("OLD_IMAGE", "NewImage")],
)
def test_an_image_that_the_view_type_lacks_is_told_before_rows_have_nulls(view: str, lacking: str):
    assert told(view, IMAGES) == [
        f"{STREAM} has the view type {view}, so that {lacking} of lake.now will be null in each row"
    ]


def test_nothing_is_told_of_targets_without_the_image_of_other_streams_and_of_kinesis():
    keys = ParseSettings(
        name="keys", table="lake.keys", format=ParseFormat.DYNAMODB, schema="Keys STRUCT<id: STRING>"
    )
    other = ParseSettings(
        name="other",
        table="lake.other",
        format=ParseFormat.DYNAMODB,
        stream="clicks.stream.2026-11-27T05_00_00.000",
        schema="NewImage STRUCT<id: STRING>",
    )
    assert told("KEYS_ONLY", keys, other) == []
    assert told("NEW_AND_OLD_IMAGES", IMAGES) == []
    assert told(None, IMAGES) == []
