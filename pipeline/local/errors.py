"""The error answers of the simulated services."""

from __future__ import annotations


class AwsError(Exception):
    """An error answer of AWS: a code that SDKs turn into an exception, a message, an HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        """Keep code, message and status of the answer."""
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


def invalid_argument(message: str) -> AwsError:
    """Say that a parameter has the right form, but a value that isn't possible."""
    return AwsError("InvalidArgumentException", message)


def resource_not_found(message: str) -> AwsError:
    """Say that a stream, a shard, or the thing that a token names doesn't exist."""
    return AwsError("ResourceNotFoundException", message)


def not_allowed(arn: str) -> AwsError:
    """Say that a resource belongs to another account, whose owner would have to allow the call."""
    return AwsError(
        "AccessDeniedException",
        "User is not authorized to perform this operation on resource: "
        f"{arn} because no resource-based policy allows it",
    )


def in_use(message: str) -> AwsError:
    """Say that the stream's state forbids the operation for now."""
    return AwsError("ResourceInUseException", message)


def over_limit(message: str) -> AwsError:
    """Say that an account's or an operation's quota is used up."""
    return AwsError("LimitExceededException", message)


def too_fast(message: str) -> AwsError:
    """Say that a shard's throughput is used up: the caller has to back off."""
    return AwsError("ProvisionedThroughputExceededException", message)


def invalid(message: str) -> AwsError:
    """Say that the request breaks the service model's own constraints."""
    return AwsError("ValidationException", message)


def unreadable(message: str) -> AwsError:
    """Say that the body breaks the protocol: it isn't JSON, or a value has the wrong type."""
    return AwsError("SerializationException", message)
