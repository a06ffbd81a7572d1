"""How a process that reads reaches Kinesis: the address and the identity that the driver gives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.pipeline.settings.blocks.aws import AwsPlace
from headrace.pipeline.settings.blocks.aws_network import AwsNetwork
from headrace.pipeline.task_identity import ROLE_OF_THE_HOST, AssumedRole, TaskIdentity


@dataclass(frozen=True, slots=True)
class KinesisAccess:
    """The address of Kinesis and the identity by which a reading process calls it. All of this comes from the
    driver; the environment of the reading process isn't used.
    """

    region: str
    endpoint: str | None = None
    """None: AWS's own, also where the reading process has AWS_ENDPOINT_URL in its environment or an endpoint in its AWS
    files."""
    identity: TaskIdentity = ROLE_OF_THE_HOST
    fips: bool = False
    dualstack: bool = False
    certificates: str | None = None
    """The driver's file of certificates (AWS_CA_BUNDLE). A host that has no such file uses its own ones."""

    network: AwsNetwork = field(default_factory=AwsNetwork)

    def config(self, **usual: Any) -> dict[str, Any]:
        """Arguments of botocore's Config: the `usual` ones of a client, replaced by those that the driver's
        settings give.
        """
        # FIPS and dual-stack are False and not left out: else the environment of the reading process would count.
        flags = {"use_fips_endpoint": self.fips, "use_dualstack_endpoint": self.dualstack}
        return {**usual, **self.network.as_config(), **flags, "ignore_configured_endpoint_urls": True}

    def __str__(self) -> str:
        return f"{self.region} at {self.endpoint or 'AWS'}"


def role_at(place: AwsPlace, region: str | None) -> AssumedRole | None:
    """The AWS role by which a service is called, where the settings name one; else None."""
    if place.role is None:
        return None
    return AssumedRole(
        arn=place.role, external_id=place.external_id, region=region, endpoint=place.all_services_at
    )
