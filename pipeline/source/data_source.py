"""The Python data source of Spark (`pyspark.sql.datasource`), format `headrace`.

    spark.read...load()      ──> planning process beside Spark's driver: options, shards or files ──> parts
                                                                                                        │
    a task of Spark for each part: Kinesis or Parquet ──> Arrow batches ──> Spark                     <─┘

Spark pickles the data source itself into its tasks, although they need only their part of the range. So a source that has
planned a query pickles without its application, whose settings may have the password of a catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.source.application import SourceApplication
from headrace.pipeline.source.columns import LOSS_KINDS, RECORD_KINDS, Loss, losses_in_form
from headrace.pipeline.source.options import RangeOptions, ReadFrom, View, range_options
from headrace.pipeline.source.partitions import of_files, of_shards, read_partition
from headrace.pipeline.source.stream_reader import TimeReader

NAME = "headrace"


class SourceWithoutApplication(DataSource):
    """The part of the source that Spark's tasks get."""

    @classmethod
    def name(cls) -> str:
        return NAME


class HeadraceSource(SourceWithoutApplication):
    """The source of one application. Each registration makes a subclass with that application."""

    application: ClassVar[SourceApplication]

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._has_planned = False

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self._kinds().items())

    def reader(self, schema: StructType) -> DataSourceReader:
        options = range_options(self.options)
        self._check_schema(schema)
        self._has_planned = True
        application = self.application
        if options.view is View.LOSSES:
            return LossReader(lambda: _losses(application, options))
        return RecordReader(lambda: _parts(application, options))

    def streamReader(self, schema: StructType) -> TimeReader:  # noqa: N802 -- Spark's name
        options = range_options(self.options, streaming=True)
        self._check_schema(schema)
        self._has_planned = True
        application = self.application
        return TimeReader(lambda: application, options)

    def _kinds(self) -> Mapping[str, str]:
        return LOSS_KINDS if self.options.get("view") == View.LOSSES else RECORD_KINDS

    def _check_schema(self, schema: StructType) -> None:
        if {field.name: field.dataType.simpleString() for field in schema} != self._kinds():
            raise BadSetting(
                "the Spark source has columns of its own, and none by .schema(...). Nothing was read; leave .schema out and "
                "choose columns by .select(...)"
            )

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._has_planned:
            return SourceWithoutApplication, ({},)
        return super().__reduce_ex__(protocol)


def bound_source(application: SourceApplication) -> type[HeadraceSource]:
    """The data source of this application, as a class of its own, because Spark registers classes. It is pickled
    by value.
    """

    class BoundSource(HeadraceSource):
        pass

    # On a class of its own, since two applications may be registered in one session, and options of
    # a query can't carry settings that have a password.
    BoundSource.application = application
    return BoundSource


class RecordReader(DataSourceReader):
    def __init__(self, plan: Callable[[], list[InputPartition]]) -> None:
        self._plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        return self._plan()

    read = staticmethod(read_partition)

    def __reduce__(self) -> Any:
        # Tasks read, and plan nothing.
        return type(self), (list,)


class LossReader(DataSourceReader):
    def __init__(self, losses: Callable[[], list[Loss]]) -> None:
        self._losses = losses

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self._losses())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return losses_in_form(partition.value or ())

    def __reduce__(self) -> Any:
        return type(self), (list,)


def _parts(application: SourceApplication, options: RangeOptions) -> list[InputPartition]:
    if options.place is ReadFrom.LAKE:
        lake = application.lake_range(options)
        return of_files(lake.parts(options.since, options.until))
    stream, pages = application.stream_range(options), application.pages()
    return of_shards(stream.parts(options.since, options.until, stream.facts()), pages)


def _losses(application: SourceApplication, options: RangeOptions) -> list[Loss]:
    if options.place is ReadFrom.LAKE:
        return application.lake_range(options).losses()
    return application.stream_range(options).losses()
