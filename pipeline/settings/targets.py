"""The targets of the settings that a person or a run means."""

from headrace.pipeline.errors import Unknown
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.parse_block import ParseSettings


def targets_of(
    settings: Settings, name: str | None, *, nothing: str = "Nothing was parsed"
) -> tuple[ParseSettings, ...]:
    """The target of this name, or all. `nothing`: what hasn't been done where there is no such target. Raises
    Unknown."""
    targets = tuple(target for target in settings.parse if name in (None, target.name))
    if not targets:
        names = ", ".join(target.name for target in settings.parse) or "none"
        raise Unknown(
            f"the settings have no target {name!r} under `parse`; they have {names}. {nothing}"
            if name
            else f"the settings name no target under `parse`. {nothing}"
        )
    return targets
