"""The common part of all AWS resources: region, profile and endpoint, and the refusal of access keys."""

from typing import Any

from dagster_aws.utils import ResourceWithBoto3Configuration
from pydantic import model_validator

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.aws import AwsPlace

_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


class AwsResource(ResourceWithBoto3Configuration):
    """The base of all AWS resources: that of dagster-aws, which here refuses its three fields for keys, because
    Dagster stores and shows configuration.
    """

    @model_validator(mode="before")
    @classmethod
    def _refuse_keys(cls, values: dict[str, Any]) -> dict[str, Any]:
        given = [key for key in _KEYS if values.get(key)]
        if given:
            raise BadSetting(
                f"{', '.join(given)} can't be configured: Dagster stores and shows configuration. "
                "Give the process a role, or keys in its environment"
            )
        return values


def aws_fields(place: AwsPlace) -> dict[str, Any]:
    """The base resource's fields for region, profile and endpoint of a service, from the settings."""
    return {"region_name": place.region, "profile_name": place.profile, "endpoint_url": place.endpoint}
