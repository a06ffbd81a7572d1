"""Rules about where AWS is, and about the roles that are assumed. Pure functions."""

import re
from collections.abc import Iterator

from headrace.pipeline.settings.aws_block import SERVICES, ServiceSettings
from headrace.pipeline.settings.broken import Broken
from headrace.pipeline.settings.model import Settings, StreamSettings

_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,512}")


def aws_rules(settings: Settings) -> Iterator[Broken]:
    blocks = {"aws": settings.aws} | {f"aws.{name}": getattr(settings.aws, name) for name in SERVICES}
    for key, block in blocks.items():
        if block.endpoint and not re.match(r"https?://[^/]", block.endpoint):
            yield Broken(
                f"{key}.endpoint", f"is {block.endpoint!r}; allowed: http://host:port or https://host:port"
            )
    for name in SERVICES:
        yield from _role(getattr(settings.aws, name), f"aws.{name}")
    for n, stream in enumerate(settings.streams):
        yield from _role(stream, f"streams.{n}")


def _role(block: ServiceSettings | StreamSettings, key: str) -> Iterator[Broken]:
    if block.role is not None and not _ROLE.fullmatch(block.role):
        yield Broken(
            f"{key}.role", f"is {block.role!r}; allowed: a role's ARN (arn:aws:iam::<account>:role/<name>)"
        )
    if block.external_id is not None and block.role is None:
        yield Broken(
            f"{key}.external_id", "is given without a role: add the role, or remove it", also=(f"{key}.role",)
        )
