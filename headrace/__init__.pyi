from headrace.component import KinesisConsumer
from headrace.pipeline.building import build_definitions
from headrace.pipeline.source.register import register_spark_source
from headrace.resources.forked_runs import fork_runs

__all__ = ["KinesisConsumer", "build_definitions", "fork_runs", "register_spark_source"]
