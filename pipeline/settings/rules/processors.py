"""Rules of the entries of `processors`. Pure functions."""

import re
import shlex
from collections.abc import Iterator
from datetime import timedelta

from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import Beat, Imports, Mode, ProcessorMode
from headrace.pipeline.settings.ddl import WrongDdl
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.rules.broken import Broken, is_table_name
from headrace.pipeline.settings.rules.processor_applications import application_rules
from headrace.pipeline.settings.rules.schema import columns_of_processor

CODE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
# Dagster's rule for names.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Kinesis's rule for names.
_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_LEAST_MEMORY = 64 * 1024 * 1024
"""With less, Python itself doesn't start."""


def processor_rules(settings: Settings) -> Iterator[Broken]:
    lake = settings.landing.table
    tables = {lake, f"{lake}_lineage", f"{lake}_windows"}
    tables |= {
        f"{table}{end}"
        for target in settings.parse
        for table in (target.table, target.quarantine)
        for end in ("", "_lineage")
    }
    names: set[str] = set()
    for n, processor in enumerate(settings.processors):
        key = f"processors.{n}"
        if not _NAME.fullmatch(processor.name) or processor.name in names:
            yield Broken(
                f"{key}.name", f"is {processor.name!r}; allowed: letters, digits and _, each name once"
            )
        names.add(processor.name)
        if processor.mode is ProcessorMode.LANDED:
            yield from _table(processor, key, taken=tables)
            tables |= _tables_of(processor)
            yield from _of_the_other_mode(processor, key)
        yield from _code(processor, key)
        yield from _numbers(processor, key)
        yield from _schema(processor, key)
    yield from application_rules(settings)


def _tables_of(processor: ProcessorSettings) -> set[str]:
    return {f"{table}{end}" for table in (processor.table, processor.quarantine) for end in ("", "_lineage")}


def _table(processor: ProcessorSettings, key: str, *, taken: set[str]) -> Iterator[Broken]:
    if not processor.table:
        yield Broken(
            f"{key}.table",
            "is missing; needed with mode: landed: the namespace and the name of its table (lake.totals)",
        )
        return
    if others := sorted(_tables_of(processor) & taken):
        yield Broken(
            f"{key}.table",
            f"is {processor.table!r}, and {others[0]} is another table of these settings; allowed: "
            "a table of its own for each processor",
            also=("landing.table",),
        )
    if not is_table_name(processor.table):
        yield Broken(f"{key}.table", f"is {processor.table!r}; allowed: a namespace and a name (lake.totals)")


def _of_the_other_mode(processor: ProcessorSettings, key: str) -> Iterator[Broken]:
    given = {
        "application": processor.application is not None,
        "consumer": processor.consumer is not None,
        "failover": processor.failover is not None,
        "beat": processor.beat is not Beat.TICKS,
        "leases": processor.leases is not Mode.OWN,
    }
    for name in (name for name, is_given in given.items() if is_given):
        yield Broken(
            f"{key}.{name}",
            "is given, and mode is landed; allowed with mode: application only, where the processor has lease tables",
            also=(f"{key}.mode",),
        )


def _code(processor: ProcessorSettings, key: str) -> Iterator[Broken]:
    if bool(processor.callable) == bool(processor.command):
        yield Broken(
            f"{key}.callable",
            "and command are both given: keep one of them"
            if processor.callable
            else "is missing; needed, or command: the class or the function that works on the records "
            "(my_module:MyProcessor)",
            also=(f"{key}.command",),
        )
    elif processor.callable and not CODE.fullmatch(processor.callable):
        yield Broken(f"{key}.callable", f"is {processor.callable!r}; allowed: package.module:Name")
    elif processor.command and (why := _why_no_command(processor.command)):
        yield Broken(f"{key}.command", f"is {processor.command!r}; {why}")
    if processor.as_amazon_kclpy and processor.command:
        yield Broken(
            f"{key}.as_amazon_kclpy",
            "is true, and a command starts its own Python; say command: python -m headrace.kclpy my_script.py",
            also=(f"{key}.command",),
        )
    if processor.imports is Imports.SHARED and processor.mode is ProcessorMode.LANDED:
        yield Broken(
            f"{key}.imports",
            "is shared, and mode is landed; allowed with mode: application only: in the other mode a task has one process at a time",
            also=(f"{key}.mode",),
        )
    if processor.imports is Imports.SHARED and processor.command:
        yield Broken(
            f"{key}.imports",
            "is shared, and a command starts a program of its own, whose imports nobody else has; allowed with callable only",
            also=(f"{key}.command",),
        )


def _why_no_command(command: str) -> str:
    try:
        return "" if shlex.split(command) else "allowed: a program and its arguments"
    except ValueError as error:
        return f"its quotes don't fit together ({error})"


def _numbers(processor: ProcessorSettings, key: str) -> Iterator[Broken]:
    for name, most in (("records", 10_000), ("tries", 1_000), ("parallelism", 10_000)):
        value = getattr(processor, name)
        if value is not None and value > most:
            yield Broken(f"{key}.{name}", f"is {value}; allowed: 1 to {most:,}")
    limits = processor.limits
    if limits.memory is not None and limits.memory < _LEAST_MEMORY:
        yield Broken(f"{key}.limits.memory", f"is {limits.memory}; allowed: {_LEAST_MEMORY} bytes or more")
    if limits.cpu is not None and limits.cpu < timedelta(seconds=1):
        yield Broken(f"{key}.limits.cpu", "has to be a second or longer (60s)")
    if processor.stream is not None and not _STREAM.fullmatch(processor.stream):
        # Rows of the lake table have the name. An ARN would never fit.
        yield Broken(f"{key}.stream", f"is {processor.stream!r}; allowed: the stream's name (orders)")


def _schema(processor: ProcessorSettings, key: str) -> Iterator[Broken]:
    if processor.schema.endswith(".ddl"):
        return
    try:
        columns_of_processor(processor.schema)
    except WrongDdl as wrong:
        yield Broken(
            f"{key}.schema", f"of the processor {processor.name} is wrong {wrong}", offset=wrong.offset
        )
