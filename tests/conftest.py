"""Shared by all tests: the hypothesis profiles, AWS's service models, which are read once, one stand-in of AWS and one
Spark server."""

from collections.abc import Iterator
from functools import cache

import pytest

import tests.hypothesis_profiles  # noqa: F401 - importing it registers and loads the profile
from tests.spark import a_jvm_that_compiles_little, joined_spark, spark_server
from tests.stand_in import aws, dynamodb, kinesis, no_backoff, only_the_stand_ins_credentials

__all__ = [
    "a_jvm_that_compiles_little",
    "aws",
    "dynamodb",
    "joined_spark",
    "kinesis",
    "no_backoff",
    "only_the_stand_ins_credentials",
    "spark_server",
]


@pytest.fixture(scope="session", autouse=True)
def _service_models_are_read_once() -> Iterator[None]:
    """botocore parses megabytes of JSON for each session, and so for each client that the product makes. That takes most of the time of an adapter's test. Clients of one session share the parsed models, so clients of several sessions may do so too."""
    from botocore.loaders import JSONFileLoader

    read = cache(JSONFileLoader().load_file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda _, path: read(path))
        yield
