"""Which targets and processors of the settings a person means."""

import pytest

from headrace.pipeline.errors import Unknown
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings, StreamSettings, WorkerSettings
from headrace.pipeline.settings.targets import targets_of
from headrace.pipeline.windows.asking import stream_of_target


def settings() -> Settings:
    return Settings(
        application="app",
        streams=(StreamSettings(name="orders"),),
        workers=(WorkerSettings(id="w1"),),
        processors=(ProcessorSettings(name="totals", callable="totals:rows", table="lake.totals"),),
    )


def test_records_of_a_processor_are_given_to_it_once_and_a_redrive_of_them_is_refused_with_the_way_out():
    with pytest.raises(
        Unknown, match=r"totals is a processor.* Nothing was parsed\. .*name another `table` for it"
    ):
        targets_of(settings(), "totals")


def test_a_window_that_replaces_rows_of_a_processor_is_refused_before_anything_is_made():
    with pytest.raises(Unknown, match=r"Nothing was made.*`headrace window create --processor totals`"):
        stream_of_target(settings(), "totals", None)
