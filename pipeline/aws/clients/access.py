"""Where Kinesis is, and who asks it: what the driver hands over to processes that read."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.settings.aws_block import AwsPlace
from headrace.pipeline.task_identity import ROLE_OF_THE_HOST, AssumedRole, TaskIdentity


@dataclass(frozen=True, slots=True)
class KinesisAccess:
    """Where Kinesis is, and who asks it. All of it comes from the driver: the environment of the reading process
    doesn't count."""

    region: str
    endpoint: str | None = None
    """None: AWS's own, also where the reading process has AWS_ENDPOINT_URL in its environment or an endpoint in its AWS
    files."""
    identity: TaskIdentity = ROLE_OF_THE_HOST
    fips: bool = False
    dualstack: bool = False
    certificates: str | None = None
    """The driver's file of certificates (AWS_CA_BUNDLE). A host that has no such file uses its own ones."""

    def __str__(self) -> str:
        return f"{self.region} at {self.endpoint or 'AWS'}"


def role_at(place: AwsPlace, region: str | None) -> AssumedRole | None:
    """The role by which a service is asked, where the settings name one."""
    if place.role is None:
        return None
    return AssumedRole(
        arn=place.role, external_id=place.external_id, region=region, endpoint=place.all_services_at
    )
