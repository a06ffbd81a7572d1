from datetime import UTC, datetime

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.choices import OnDataLoss
from headrace.pipeline.source.options import RangeOptions, ReadFrom, View, range_options

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def test_options_are_read_whatever_the_case_of_their_names():
    options = {"From": "2026-01-01", "SOURCE": "kinesis", "on_data_loss": "continue", "view": "losses"}
    assert range_options(options) == RangeOptions(
        since=NEW_YEAR, place=ReadFrom.KINESIS, on_data_loss=OnDataLoss.CONTINUE, view=View.LOSSES
    )
    numbers = {"shard": "shardId-000000000000", "after_sequence": "7", "upto_sequence": "9"}
    assert range_options(numbers) == RangeOptions(shard="shardId-000000000000", after=7, upto=9)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"form": "2026-01-01"}, "no option 'form'"),
        ({"from": "yesterday"}, "a time such as"),
        ({"source": "s3"}, "lake or kinesis"),
        ({"view": "rows"}, "records or losses"),
        ({"on_data_loss": "ignore"}, "stop or continue"),
        ({"shard": "s", "upto_sequence": "-1"}, "a sequence number"),
        ({"shard": ""}, "a name"),
        ({"from": "2026-01-02", "to": "2026-01-02"}, "a time after `from`"),
        ({"after_sequence": "7"}, "name it by the option shard"),
        ({"shard": "s", "after_sequence": "7", "to": "2026-01-02"}, "either times"),
        ({"shard": "s", "after_sequence": "7", "upto_sequence": "7"}, "no record can lie between"),
        ({"window": "w", "from": "2026-01-02"}, "a window says by itself"),
        ({"window": "w", "source": "kinesis"}, "a window is read from the lake table"),
    ],
)
def test_a_wrong_option_is_told_with_what_is_allowed(options: dict[str, str], word: str):
    with pytest.raises(BadSetting, match=word):
        range_options(options)


@pytest.mark.parametrize(
    "options", [{"window": "w"}, {"shard": "s", "upto_sequence": "7"}, {"view": "losses"}]
)
def test_a_stream_query_goes_by_times(options: dict[str, str]):
    range_options(options)
    with pytest.raises(BadSetting, match=r"spark\.read"):
        range_options(options, streaming=True)
