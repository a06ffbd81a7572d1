"""KCL's clientVersionConfig: in which client version does a worker start?"""

from __future__ import annotations

from enum import StrEnum

from headrace.pipeline.kcl.migration import ClientVersion


class ClientConfig(StrEnum):
    """KCL's clientVersionConfig."""

    PHASE1 = "PHASE1"
    COMPATIBLE_WITH_2X = "2X"
    V3 = "3X"


def first_version(config: ClientConfig, stored: ClientVersion | None) -> ClientVersion:
    """The configuration decides only while a rollback is open; otherwise the row decides."""
    if stored is ClientVersion.WITH_ROLLBACK:
        return ClientVersion.V3 if config is ClientConfig.V3 else stored
    if stored is not None and stored is not ClientVersion.INIT:
        return stored
    match config:
        case ClientConfig.PHASE1:
            return ClientVersion.INIT
        case ClientConfig.COMPATIBLE_WITH_2X:
            return ClientVersion.UPGRADE_FROM_2X
        case ClientConfig.V3:
            return ClientVersion.V3
