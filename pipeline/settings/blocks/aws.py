"""The block `aws` of the settings: addresses and identities by which AWS is called, for all services together and
for single services.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.pipeline.settings.blocks.aws_network import AwsNetwork, network_of
from headrace.pipeline.settings.knob import knob

SERVICES: Final = ("kinesis", "dynamodb", "cloudwatch")
"""The services that may have a block of their own. The catalog's and S3's places are properties of `landing.catalog`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    region: str | None = knob(doc="The region of this service. Default: `aws.region`.")
    endpoint: str | None = knob(
        doc="The endpoint of this service. Default: `aws.endpoint`, then AWS_ENDPOINT_URL and the service's own variable "
        "such as AWS_ENDPOINT_URL_DYNAMODB."
    )
    profile: str | None = knob(doc="The profile by which this service is asked. Default: `aws.profile`.")
    role: str | None = knob(
        doc="The ARN of a role that is assumed to ask this service, by the profile or by the credentials of the process. "
        "It is assumed anew before it expires, in Spark's tasks too."
    )
    external_id: str | None = knob(doc="With `role`: the external id that its trust policy asks for.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSettings:
    region: str | None = knob(
        doc="AWS region of all services. Default: the region of the environment or of the profile. For a bucket in "
        "another region set `s3.region` in `landing.catalog`."
    )
    profile: str | None = knob(
        doc="Name of a profile in AWS's own configuration files, by which Headrace calls DynamoDB, Kinesis, Glue and "
        "S3, and Spark's tasks call Kinesis and S3: each of these hosts needs it. Access keys are never settings."
    )
    endpoint: str | None = knob(
        doc="Endpoint of all AWS services, for `headrace local` and other local replacements of AWS. It counts for "
        "Glue and S3 too, unless `landing.catalog` has `glue.endpoint` or `s3.endpoint` (empty: AWS's own). A "
        "table on local files asks neither."
    )
    client: Mapping[str, str] = knob(
        factory=dict,
        doc="How Kinesis, DynamoDB and CloudWatch are connected to, in Spark's tasks too, by botocore's names: "
        "use_fips_endpoint, use_dualstack_endpoint (true, false), proxies (one address), max_pool_connections (1 to 1000), "
        "connect_timeout (0.1 to 5 seconds) and read_timeout (1 to 10 seconds). What isn't here comes from AWS's own variables "
        "and files, or is Headrace's.",
        kcl="kinesisRequestTimeout / dynamoDbRequestTimeout",
    )
    kinesis: ServiceSettings = knob(
        factory=ServiceSettings,
        doc="Where the streams are, and who reads them, where that differs from `aws`.",
        kcl="kinesisClient",
    )
    dynamodb: ServiceSettings = knob(
        factory=ServiceSettings,
        doc="Where the coordination tables are, and who works with them, where that differs from `aws`.",
        kcl="dynamoDBClient",
    )
    cloudwatch: ServiceSettings = knob(
        factory=ServiceSettings,
        doc="Where metrics go, and who sends them, where that differs from `aws`.",
        kcl="cloudWatchClient",
    )

    def of(self, service: str) -> AwsPlace:
        """The address and identity by which a service is called: from the service's own block, and else from what
        applies to all services.
        """
        own: ServiceSettings = getattr(self, service) if service in SERVICES else ServiceSettings()
        return AwsPlace(
            service=service,
            region=own.region or self.region,
            endpoint=own.endpoint or self.endpoint,
            profile=own.profile or self.profile,
            role=own.role,
            external_id=own.external_id,
            all_services_at=self.endpoint,
            has_own_profile=own.profile is not None,
            has_own_endpoint=own.endpoint is not None,
            network=network_of(self.client),
        )

    def at(
        self, *, region: str | None = None, profile: str | None = None, endpoint: str | None = None
    ) -> AwsSettings:
        """These settings, changed by the options of a person's command, which apply to each service."""
        given = {"region": region, "profile": profile, "endpoint": endpoint}
        stated = {name: value for name, value in given.items() if value}
        nothing = dict.fromkeys(stated)
        apart = {service: replace(getattr(self, service), **nothing) for service in SERVICES}
        if profile:
            apart = {service: replace(block, role=None, external_id=None) for service, block in apart.items()}
        return replace(self, **stated, **apart)  # type: ignore[arg-type] # mypy joins the types of all values


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsPlace:
    """The address and identity by which one AWS service is called."""

    service: str
    region: str | None = None
    endpoint: str | None = None
    profile: str | None = None
    role: str | None = None
    external_id: str | None = None
    all_services_at: str | None = None
    """The endpoint of all services, STS among them."""
    has_own_profile: bool = False
    has_own_endpoint: bool = False
    network: AwsNetwork = field(default_factory=AwsNetwork)

    @property
    def profile_key(self) -> str:
        return f"aws.{self.service}.profile" if self.has_own_profile else "aws.profile"

    @property
    def endpoint_key(self) -> str:
        return f"aws.{self.service}.endpoint" if self.has_own_endpoint else "aws.endpoint"

    def by(self, role: str | None, external_id: str | None) -> AwsPlace:
        """The same address and identity, but with this AWS role where one is given, as for a stream with a role of its own."""
        return self if role is None else replace(self, role=role, external_id=external_id)
