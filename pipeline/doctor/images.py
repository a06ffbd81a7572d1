"""A check: whether the stream of a DynamoDB table has the images of items that typed tables make columns of."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.rules.schema import columns_of_schema

_VIEWS = {
    "NEW_IMAGE": ("NewImage",),
    "OLD_IMAGE": ("OldImage",),
    "NEW_AND_OLD_IMAGES": ("NewImage", "OldImage"),
    "KEYS_ONLY": (),
}
"""By the stream's view type: the images that its changes may have."""


def lacking_images(settings: Settings, stream: str, view: str | None) -> Iterator[Diagnosis]:
    """The images that the stream lacks, though a typed table needs them. `stream`: its name. `view`: the stream's
    view type; None for a stream of Kinesis.
    """
    if view not in _VIEWS:
        return
    lacking = {"NewImage", "OldImage"} - set(_VIEWS[view])
    for target in settings.parse:
        is_of_it = target.format is ParseFormat.DYNAMODB and target.stream in (None, stream)
        names = (
            [column.name for column in columns_of_schema(target) if column.name in lacking]
            if is_of_it
            else []
        )
        if names:
            yield Diagnosis(
                "streams",
                Health.ILL,
                f"{stream} has the view type {view}, so that {' and '.join(names)} of {target.table} will be null in each row",
                "The view type of a stream can't be changed: switch the stream off and on again with another one, which gives "
                "it another ARN (docs/use/dynamodb-streams.md), or take the column out of the schema",
            )
