"""Rules of processors that are KCL applications of their own. Pure functions."""

import re
from collections.abc import Iterator

from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import OnProcessorError, ProcessorMode
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.processor_application import application_settings, table_names
from headrace.pipeline.settings.rules.beside_kcl import fleet_rules
from headrace.pipeline.settings.rules.broken import Broken
from headrace.pipeline.settings.stream_names import name_in

# DynamoDB's rule for names of tables, with room for the endings of KCL's tables.
_APPLICATION = re.compile(r"[A-Za-z0-9_.-]{3,230}")
_POLICIES = (OnProcessorError.HALT, OnProcessorError.RETRY)


def application_rules(settings: Settings) -> Iterator[Broken]:
    taken = dict.fromkeys(table_names(settings), "the application that lands records")
    for n, processor in enumerate(settings.processors):
        if processor.mode is not ProcessorMode.APPLICATION:
            continue
        key = f"processors.{n}"
        yield from _name(settings, processor, key, taken=taken)
        yield from _without_a_table(processor, key)
        yield from fleet_rules(application_settings(settings, processor), f"{key}.failover")
        if processor.on_error not in _POLICIES:
            yield Broken(
                f"{key}.on_error",
                f"is {processor.on_error}; allowed with mode: application: halt or retry",
                also=(f"{key}.mode",),
            )
        known = {name_in(stream.name) for stream in settings.streams}
        if processor.stream is not None and processor.stream not in known:
            yield Broken(
                f"{key}.stream",
                f"is {processor.stream!r}; allowed with mode: application: a stream of these settings "
                f"({', '.join(sorted(known)) or 'none'})",
                also=("streams",),
            )


def _name(
    settings: Settings, processor: ProcessorSettings, key: str, *, taken: dict[str, str]
) -> Iterator[Broken]:
    if processor.application is None:
        yield Broken(
            f"{key}.application",
            "is missing; needed with mode: application: the name of its KCL application, which names its lease tables",
        )
        return
    if not _APPLICATION.fullmatch(processor.application):
        yield Broken(
            f"{key}.application",
            f"is {processor.application!r}; allowed: 3 to 230 of A-Z a-z 0-9 _ . - (it names the lease tables)",
        )
        return
    own = table_names(application_settings(settings, processor))
    for name in sorted(own & taken.keys()):
        yield Broken(
            f"{key}.application",
            f"is {processor.application!r}, and the table {name} belongs to {taken[name]}; allowed: an application of its "
            "own for each processor, because each has checkpoints of its own",
            also=("application",),
        )
    taken |= dict.fromkeys(own, f"the processor {processor.name}")


def _without_a_table(processor: ProcessorSettings, key: str) -> Iterator[Broken]:
    for name in ("table", "schema"):
        if getattr(processor, name):
            yield Broken(
                f"{key}.{name}",
                "is given, and mode is application; allowed with mode: landed only: a processor that is an application "
                "of its own writes no table",
                also=(f"{key}.mode",),
            )
