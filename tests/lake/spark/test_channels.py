"""Closing channels of gRPC in a process that is interrupted meanwhile."""

import grpc
import pytest

from headrace.pipeline.lake.spark.channels import uninterrupted
from tests.killed import finished
from tests.spark import SparkServer


def test_a_close_that_is_interrupted_at_any_moment_leaves_no_channel_for_which_python_waits_for_ever():
    finished("tests.lake.spark.closed_channels")


def test_a_channel_that_was_closed_takes_no_call_any_more():
    channel = uninterrupted(grpc.insecure_channel("127.0.0.1:1"))

    channel.close()

    with pytest.raises(ValueError, match="closed"):
        channel.unary_unary("/endless/answers")(b"")


@pytest.mark.slow
def test_a_start_of_spark_that_is_interrupted_leaves_no_channel_for_which_python_waits_for_ever(
    spark_server: SparkServer,
):
    finished("tests.lake.spark.interrupted_start", server=spark_server)
