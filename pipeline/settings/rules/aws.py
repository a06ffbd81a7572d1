"""Rules about where AWS is, and about the roles that are assumed. Pure functions."""

import re
from collections.abc import Iterator

from headrace.pipeline.settings.blocks.aws import SERVICES, ServiceSettings
from headrace.pipeline.settings.blocks.aws_network import broken_names, broken_value, network_of
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.settings.rules.broken import Broken

_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,512}")


def aws_rules(settings: Settings) -> Iterator[Broken]:
    blocks = {"aws": settings.aws} | {f"aws.{name}": getattr(settings.aws, name) for name in SERVICES}
    for key, block in blocks.items():
        if block.endpoint and not re.match(r"https?://[^/]", block.endpoint):
            yield Broken(
                f"{key}.endpoint", f"is {block.endpoint!r}; allowed: http://host:port or https://host:port"
            )
    yield from _client(settings)
    for name in SERVICES:
        yield from _role(getattr(settings.aws, name), f"aws.{name}")
    for n, stream in enumerate(settings.streams):
        yield from _role(stream, f"streams.{n}")


def _client(settings: Settings) -> Iterator[Broken]:
    aws = settings.aws
    wrong = [*broken_names(aws.client)]
    if not wrong:
        wrong = [why for name, text in aws.client.items() if (why := broken_value(name, text)) is not None]
    for why in wrong:
        yield Broken("aws.client", why)
    network = network_of(aws.client)
    endpoints = [f"aws.{name}.endpoint" for name in SERVICES if getattr(aws, name).endpoint]
    endpoints += ["aws.endpoint"] if aws.endpoint else []
    if (network.fips or network.dualstack) and endpoints:
        yield Broken(
            "aws.client",
            f"asks for AWS's FIPS or dual-stack endpoints, but {endpoints[0]} names an endpoint: remove one of the two",
            also=tuple(endpoints),
        )


def _role(block: ServiceSettings | StreamSettings, key: str) -> Iterator[Broken]:
    if block.role is not None and not _ROLE.fullmatch(block.role):
        yield Broken(
            f"{key}.role", f"is {block.role!r}; allowed: a role's ARN (arn:aws:iam::<account>:role/<name>)"
        )
    if block.external_id is not None and block.role is None:
        yield Broken(
            f"{key}.external_id", "is given without a role: add the role, or remove it", also=(f"{key}.role",)
        )
