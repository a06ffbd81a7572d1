"""Finds the targets and the processors in the settings that a person or a run names."""

from headrace.pipeline.errors import Unknown
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import ProcessorMode
from headrace.pipeline.settings.model import Settings


def targets_of(
    settings: Settings, name: str | None, *, nothing: str = "Nothing was parsed"
) -> tuple[ParseSettings, ...]:
    """The target with this name; all targets for None. `nothing`: the part of the error's text that says what
    wasn't done. Raises Unknown where there is no such target.
    """
    targets = tuple(target for target in settings.parse if name in (None, target.name))
    if not targets and any(processor.name == name for processor in settings.processors):
        raise Unknown(
            f"{name} is a processor, and no target under `parse`. {nothing}. `headrace processor run {name}` gives it new "
            f"records, and `headrace redrive --processor {name}` those in its quarantine table. A window of landed records "
            f"goes through it into a table of its own (`headrace window create --processor {name}`), because rows and state of "
            "its own table belong together. To have it process all records again, correct its code and name another `table` "
            "for it"
        )
    if not targets:
        names = ", ".join(target.name for target in settings.parse) or "none"
        raise Unknown(
            f"the settings have no target {name!r} under `parse`; they have {names}. {nothing}"
            if name
            else f"the settings name no target under `parse`. {nothing}"
        )
    return targets


def tables_of(settings: Settings) -> frozenset[str]:
    """All tables that the settings name, and those whose names Headrace derives from them, except the tables of
    windows.
    """
    lake = settings.landing.table
    makers: tuple[ParseSettings | ProcessorSettings, ...] = (*settings.parse, *landed_processors(settings))
    names = (lake, *(table for maker in makers for table in (maker.table, maker.quarantine)))
    return frozenset(f"{name}{end}" for name in names for end in ("", "_lineage")) | {f"{lake}_windows"}


def processors_of(settings: Settings, name: str | None) -> tuple[ProcessorSettings, ...]:
    """The processor with this name; all processors for None. Raises Unknown where there is no such processor."""
    processors = tuple(processor for processor in settings.processors if name in (None, processor.name))
    if not processors:
        names = ", ".join(processor.name for processor in settings.processors) or "none"
        raise Unknown(
            f"the settings have no processor {name!r} under `processors`; they have {names}. Nothing was processed"
            if name
            else "the settings name no processor under `processors`. Nothing was processed"
        )
    return processors


def landed_processor(settings: Settings, name: str) -> ProcessorSettings:
    """The processor with this name, which must be one of `mode: landed` and so has a quarantine table. Raises
    Unknown.
    """
    (processor,) = processors_of(settings, name)
    if processor.mode is not ProcessorMode.LANDED:
        raise Unknown(
            f"the processor {name} has no quarantine table, because it is a KCL application of its own (`mode: application`). "
            "Nothing was processed"
        )
    return processor


def landed_processors(settings: Settings) -> tuple[ProcessorSettings, ...]:
    """The processors of `mode: landed`, which read the lake table."""
    return tuple(processor for processor in settings.processors if processor.mode is ProcessorMode.LANDED)


def processor_applications(settings: Settings) -> tuple[ProcessorSettings, ...]:
    """The processors of `mode: application`, which are KCL applications of their own."""
    return tuple(
        processor for processor in settings.processors if processor.mode is ProcessorMode.APPLICATION
    )
