"""The one error that an operation answers with."""

from __future__ import annotations


class AwsError(Exception):
    """An error answer as AWS spells it: a code that SDKs turn into an exception, a message, a HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        """Keep what goes on the wire."""
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


def invalid_argument(message: str) -> AwsError:
    """Say that a parameter has the right form but not a value that can be honoured."""
    return AwsError("InvalidArgumentException", message)


def not_found(message: str) -> AwsError:
    """Say that a stream, a shard or a token's subject isn't there."""
    return AwsError("ResourceNotFoundException", message)


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
    """Say that the body isn't what the protocol allows: no JSON, or a value of the wrong type."""
    return AwsError("SerializationException", message)
