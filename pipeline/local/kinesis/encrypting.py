"""StartStreamEncryption and StopStreamEncryption: from then on, records state by which kind of key they are
encrypted.

Nothing is encrypted here. The error that a reader without rights on the key sees has to be planned as a fault:
`error` for GetRecords, and `exception` for SubscribeToShard, with a code such as KMSAccessDeniedException.
"""

from __future__ import annotations

import re
from typing import Any

from headrace.pipeline.local.errors import over_limit
from headrace.pipeline.local.fields import Request, choice, text_field
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.stream import State

_KEY_ID = re.compile(r".{1,2048}")
_MOST_A_DAY = 25
_DAY = 24 * 3600


def start_encryption(region: Region, request: Request) -> dict[str, Any]:
    """Encrypt records by a key once UPDATING is over."""
    return _change(region, request, "StartStreamEncryption", starts=True)


def stop_encryption(region: Region, request: Request) -> dict[str, Any]:
    """Encrypt no records once UPDATING is over."""
    return _change(region, request, "StopStreamEncryption", starts=False)


def _change(region: Region, request: Request, operation: str, *, starts: bool) -> dict[str, Any]:
    now = region.clock()
    choice(request, "EncryptionType", frozenset({"KMS"}))
    key_id = text_field(request, "KeyId", _KEY_ID)
    stream = region.active_stream(request, operation, now)
    recent = [moment for moment in stream.encryption_changes if moment > now - _DAY]
    if region.limits.enforced and len(recent) >= _MOST_A_DAY:
        raise over_limit(
            f"The encryption of {stream.name} was changed {_MOST_A_DAY} times in 24 hours already."
        )
    stream.encryption_changes = [*recent, now]

    def change(_moment: float) -> None:
        stream.key_id = key_id if starts else None

    stream.begin(State.UPDATING, now, change)
    return {}
