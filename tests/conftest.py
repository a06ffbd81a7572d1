"""Shared by all tests: the hypothesis profiles, one stand-in of AWS and one Spark server."""

import gc
import signal
from collections.abc import Generator

import pytest

import tests.hypothesis_profiles  # noqa: F401 - importing it registers and loads the profile
from tests.collecting import begin_at_own_place, in_order
from tests.files_in_memory import put_test_folders_in_memory
from tests.spark import a_jvm_that_starts_soon, discovery_stays, joined_spark, spark, spark_server
from tests.stand_in import aws, dynamodb, kinesis, no_backoff, only_the_stand_ins_credentials

__all__ = [
    "a_jvm_that_starts_soon",
    "aws",
    "discovery_stays",
    "dynamodb",
    "joined_spark",
    "kinesis",
    "no_backoff",
    "only_the_stand_ins_credentials",
    "spark",
    "spark_server",
]


def pytest_configure(config: pytest.Config) -> None:
    put_test_folders_in_memory()
    begin_at_own_place(config)
    # A shell starts `make test &` with SIGINT ignored. Children would inherit that, and Dagster's runs would ignore
    # SIGTERM, too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    in_order(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collect no garbage while the tests are collected, and leave what was collected out from then on.

    All of it lives as long as the process. Looking through it again and again took a third of the CPU time of collecting.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
