"""The documents that driver and executors exchange when files are compacted."""

from __future__ import annotations

from headrace.pipeline.lake.staging.stage_codec import decode, encode
from headrace.pipeline.upkeep.rewrite_plan import Rewritten


def encode_rewritten(rewritten: Rewritten) -> bytes:
    return encode(rewritten)


def decode_rewritten(text: bytes) -> Rewritten:
    return decode(text, Rewritten)
