"""Texts without a date in a timestamp column are found before Spark reads them, and no other ones."""

from typing import Any

import pytest

from headrace.pipeline.typed.json.rules import JsonRules
from headrace.pipeline.typed.json.times import NO_DATE
from headrace.pipeline.typed.json.values import JsonValues

VISIT = {
    "type": "struct",
    "fields": [{"name": "at", "type": "timestamp"}, {"name": "text", "type": "string"}],
}
COLUMNS: tuple[tuple[str, Any], ...] = (
    ("at", "timestamp"),
    ("text", "string"),
    ("visits", {"type": "array", "elementType": VISIT}),
    ("marks", {"type": "map", "keyType": "string", "valueType": "timestamp"}),
)
RULES = JsonRules(JsonValues(COLUMNS, 1000))


@pytest.mark.parametrize(
    "payload",
    [
        '{"at": "10:00"}',
        '{"at": "9:05:01Z"}',
        '{"at": " T10:00"}',
        '{"at": "T10"}',
        '{"at": "\\t10:00"}',
        '{"at": "1\\u0030:00"}',
        '{"at": "\\u005410:00"}',
        '{"a\\u0074": "10:00"}',
        '{"at": "2026-01-31T10:00:00Z", "at": "10:00"}',
        '{"visits": [{"at": null}, {"at": "10:00"}]}',
        '{"marks": {"opened": "10:00"}}',
    ],
)
def test_a_text_with_a_time_of_day_and_no_date_is_found(payload: str):
    assert RULES.why_not(payload.encode()) == NO_DATE


@pytest.mark.parametrize(
    "payload",
    [
        '{"at": "2026-01-31T10:00:00Z"}',
        '{"at": "2026-01-31 10:00"}',
        '{"at": 1764000000}',
        '{"at": null, "text": "10:00"}',
        '{"visits": [{"text": "T10:00"}]}',
        '{"10:00": "10:00"}',
        '{"marks": {"10:00": "2026-01-31T10:00:00Z"}}',
        '"10:00"',
    ],
)
def test_all_else_is_left_to_spark(payload: str):
    assert RULES.why_not(payload.encode()) is None
