"""The settings `processors`: the user's own record processors."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from headrace.pipeline.settings.blocks.parse import Written
from headrace.pipeline.settings.choices import Beat, Imports, Mode, OnProcessorError, ProcessorMode
from headrace.pipeline.settings.knob import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorLimits:
    memory: int | None = knob(doc="The most memory of a process, in bytes. Default: no limit.", unit="bytes")
    cpu: timedelta | None = knob(
        doc="The most CPU time of a process, which works on one shard in one wave. Default: no limit."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorSettings:
    name: str = field(metadata={"doc": "The processor's name in Dagster and in `headrace processor`."})
    callable: str | None = knob(
        doc="A processor in Python, as package.module:Name: a class with the methods of a record processor of amazon_kclpy "
        "(version 1, 2 or 3), or a function rows(records, state). Its module is beside this file, or installed.",
    )
    command: str | None = knob(
        doc="In the place of callable, a processor in any language: a program and its arguments, which speaks the "
        "MultiLang protocol on standard input and output. It starts in the folder of this file.",
        kcl="executableName",
    )
    mode: ProcessorMode = knob(
        ProcessorMode.LANDED,
        doc="landed: over the records in the lake table, with rows, state and position in one commit. application: over the "
        "stream itself, at least once, as a KCL application with lease tables of its own.",
    )
    table: str = knob(
        "",
        doc="With `mode: landed`: namespace and name of the processor's table, in the catalog of the lake table: it has the "
        "rows, and the positions. Its quarantine table has the same name with `_quarantine` at its end.",
    )
    application: str | None = knob(
        doc="With `mode: application`: the name of the KCL application, which names its lease tables. Workers of KCL and "
        "amazon_kclpy of the same name share the shards with the processor.",
    )
    consumer: str | None = knob(
        doc="With `mode: application` and streams of `retrieval: fanout`: the name of the consumer by which the processor reads. "
        "By default the application's name. With `failover` it must be another one: KCL's workers read by that name.",
        kcl="consumerName",
    )
    failover: timedelta | None = knob(
        doc="With `mode: application`, beside running workers of KCL: their failoverTimeMillis, at least 20s, or 10s with "
        "`beat: process`, and at most `times.lease_duration`.",
    )
    beat: Beat = knob(
        Beat.TICKS,
        doc="With `failover`: what beats for the leases of the processor's application while no run reads them, as `kcl.beat` "
        "says it of the application that lands records.",
    )
    leases: Mode = knob(
        Mode.OWN,
        doc="With `mode: application`: how the workers of the application share its leases, as `kcl.mode` says it of the "
        "application that lands records.",
    )
    schema: str = knob(
        "",
        doc="The columns of the rows that the processor gives, as Spark writes them (id BIGINT, seen TIMESTAMP), or the path of a "
        "file with them that ends in .ddl. A processor that gives no rows needs none.",
    )
    stream: str | None = knob(doc="Only records of the stream with this name. Default: of all streams.")
    parallelism: int | None = knob(
        doc="How many shards at most are worked on at the same time. Default: as many as Spark has tasks for."
    )
    records: int = knob(10_000, doc="The most records of one call.", kcl="maxRecords")
    timeout: timedelta = knob(
        timedelta(minutes=5),
        doc="How long one call may take. A process that takes longer is ended, and the call has failed.",
        kcl="timeoutInSeconds",
    )
    shutdown_grace: timedelta = knob(
        timedelta(seconds=30),
        doc="How long shutdown_requested and lease_lost may take, with which each wave ends.",
        kcl="shutdownGraceMillis",
    )
    limits: ProcessorLimits = knob(factory=ProcessorLimits, doc="What a process may use at most.")
    on_error: OnProcessorError = knob(
        OnProcessorError.HALT,
        doc="What happens after a call has failed. halt: the shard stops before it, and the others go on. retry: it is tried "
        "again, and then the shard stops. halve: fewer records are handed out at once until the one is found at "
        "which the processor fails, and the shard stops there. quarantine: that record goes to the quarantine "
        "table, and the shard goes on.",
    )
    tries: int = knob(3, doc="With `on_error: retry`: how often a call is tried.")
    backoff: timedelta = knob(
        timedelta(seconds=1),
        doc="With `on_error: retry`: the pause before the second try. Each later one is twice as long.",
    )
    as_amazon_kclpy: bool = knob(
        default=False,
        doc="Whether `import amazon_kclpy` finds Headrace's own package in the process, where amazon_kclpy isn't installed.",
    )
    imports: Imports = knob(
        Imports.OWN,
        doc="With `mode: application` and `callable`: own, each shard's process imports the module for itself. shared, one process of a "
        "host imports it, and those of the shards are its forks: a model or a large library is in memory once. Not for code that opens "
        "connections or starts threads when it is imported.",
    )
    version: str = knob(
        "1",
        doc="The version of your schema and code, which the ledger records with each range. "
        "Raise it when you change either.",
    )

    written: Written = field(
        default_factory=Written, compare=False, repr=False, metadata={"is_setting": False}
    )

    beside: str = field(default="", compare=False, repr=False, metadata={"is_setting": False})
    """In the settings of a processor's own application: the application that lands records, beside which it works."""

    def called(self, setting: str) -> str:
        """A setting of this processor in words for a message."""
        place = self.written.places.get(setting)
        return f"`{setting}` of the processor {self.name}{f' ({place})' if place else ''}"

    @property
    def quarantine(self) -> str:
        return f"{self.table}_quarantine"
