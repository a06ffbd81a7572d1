"""The next page of a list that is sorted by names."""

from __future__ import annotations

from headrace.pipeline.local.errors import AwsError, invalid_argument
from headrace.pipeline.local.sealed import NotSealedError, unseal

_TOKEN_SECONDS = 300


def continued(kind: str, token: str, now: float) -> str:
    """The name with which the page before ended, from this NextToken."""
    try:
        last, created = unseal(kind, token)
    except NotSealedError as error:
        raise invalid_argument("Invalid NextToken.") from error
    if now - float(created) > _TOKEN_SECONDS:
        raise AwsError(
            "ExpiredNextTokenException", f"NextToken expired: it is older than {_TOKEN_SECONDS} seconds."
        )
    return last
