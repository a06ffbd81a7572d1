"""Requests of a reading process to Kinesis about a shard, and what the errors of the answers mean.

call ──> the answer
     └─> Throttled, Unreachable     the same request may succeed later
     └─> DataLoss, BadSetting, ...  it can't
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    ProfileNotFound,
)

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.reading.pages_client import forget_clients, reader_client
from headrace.pipeline.aws.reading.pages_decode import PageAnswer
from headrace.pipeline.aws.reading.pages_proof import PROOFS, not_found
from headrace.pipeline.aws.reading.quick_records import THROTTLES
from headrace.pipeline.clock import dice
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.ledger.belonging import why_outside, why_too_early
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import (
    BadSetting,
    DataLoss,
    Terminal,
    Throttled,
    Transient,
    Unreachable,
    WrongStream,
)

MISSING: Final = "ResourceNotFoundException"
_EXPIRED_TOKEN = "ExpiredTokenException"  # noqa: S105 -- the code of an error
_KEYS = frozenset({_EXPIRED_TOKEN, "UnrecognizedClientException", "InvalidSignatureException"})
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The clock, random numbers and connection of the reading process. All are module functions, which pickle as
    their names.
    """

    connect: Callable[[KinesisAccess], Any] = reader_client
    """Gives a client with `get_shard_iterator` and `get_records`."""
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    dice: Callable[[], float] = dice


class Asking:
    """Sends the requests to Kinesis for the reading of one shard."""

    def __init__(
        self,
        key: ShardKey,
        access: KinesisAccess,
        connect: Callable[[KinesisAccess], Any],
        *,
        rights: str,
        forget: Callable[[], None] = forget_clients,
    ) -> None:
        """Ask for one shard.

        `rights`: what the worker's role needs, for a person who has to give them. `forget`: makes `connect` read
        credentials anew.
        """
        self._forget = forget
        self._key = key
        self._place = access
        self._connect = connect
        self._rights = rights
        self._access = (connect, access)
        """How Kinesis is asked, and by whose rights."""
        self._is_proved = False
        """Whether the stream is the one that the driver means."""

    def prove(self, now: Callable[[], float]) -> None:
        """Raise an error unless the stream that this process reaches is the one that the driver means."""
        if self._is_proved:
            return
        stream = self._key.stream
        PROOFS.require(
            stream,
            self._access,
            lambda: self.call("describe_stream_summary", StreamARN=stream.arn),
            now=now,
        )
        self._is_proved = True

    def prove_again(self, now: Callable[[], float]) -> None:
        """Raise an error unless the stream that this process reaches is still the one that the driver means."""
        # The proof of this process may be minutes old, and after a strange answer only a new one
        # says whose records these are.
        PROOFS.forget(self._access, self._key.stream)
        self._is_proved = False
        self.prove(now)

    def call(self, operation: str, **arguments: Any) -> Any:
        """The answer of an operation. Where an AWS error has a meaning that depends on the operation, it is the
        cause of the exception that is raised.
        """
        try:
            # Made inside the task, on the executor: a boto3 client can't be pickled.
            client = self._connect(self._place)
            return getattr(client, operation)(**arguments)
        except ClientError as error:
            code = code_of(error)
            if _is_about_keys(code):
                self._forget()
                # Where only rights are missing, the keys of the other streams stay as they are.
                PROOFS.forget(self._access, None if code in _KEYS else self._key.stream)
                self._is_proved = False
            if operation == "describe_stream_summary" and code == MISSING:
                raise WrongStream(not_found(self._key.stream, self._place)) from error
            raise self._named(error, code) from error
        except HTTPClientError as error:
            raise Unreachable(
                f"Kinesis could not be reached for {self._key} ({type(error).__name__}). Nothing was lost, "
                "and the request is sent again"
            ) from error
        except ProfileNotFound as error:
            raise BadSetting(_no_profile(self._place.identity.profile, self._key)) from error
        except NoCredentialsError as error:
            raise BadSetting(_no_role(self._key)) from error
        except BotoCoreError as error:
            raise BadSetting(
                f"{self._key} can't be read with this worker's AWS configuration: {error}"
            ) from error

    def _named(self, error: ClientError, code: str) -> Exception:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code == MISSING:
            return DataLoss(
                f"{self._key} is gone from Kinesis before its end was read: its unread records are lost. "
                "Landed records are safe. Record the gap with `headrace skip` or set on_data_loss: continue"
            )
        if code in THROTTLES:
            return Throttled(f"Kinesis throttles the reading of {self._key} ({code}). Nothing was lost")
        if status >= _SERVER_ERROR or code in {_EXPIRED_TOKEN, "RequestTimeout"}:
            return Unreachable(
                f"Kinesis failed for {self._key} ({code or status}). Nothing was lost, and the request is sent again"
            )
        if _is_about_keys(code):
            return BadSetting(
                f"AWS doesn't let this worker read {self._key} ({code}). Nothing was read. "
                f"The worker's role needs {self._rights}"
            )
        return Terminal(
            f"Kinesis refuses to give records of {self._key} ({code}: {error.response['Error'].get('Message', '')})"
        )


def check_is_own(answer: PageAnswer, batch: Batch, *, access: KinesisAccess, request_id: str) -> None:
    """Raise an error for records that can't be of the shard."""
    if why := why_too_early(batch.key.stream, answer.earliest) or why_outside(
        batch.numbers, answer.first_sequence, answer.last_sequence
    ):
        raise WrongStream(
            f"an answer for {batch.key} has records that can't be its own: "
            f"{why} (Kinesis in {access}; AWS's request id: {request_id}). "
            "Nothing of the answer was used. Look for a proxy or an endpoint that answers for another "
            "stream"
        )


def given_up(trouble: Transient, patience: float) -> Transient:
    """The error with which a wave stops trying after `patience` seconds."""
    return type(trouble)(f"{trouble}. This wave stopped trying after {patience:g} s")


def _is_about_keys(code: str) -> bool:
    """Whether Kinesis refused a request because of the credentials or their rights."""
    return "AccessDenied" in code or code in _KEYS


def _no_profile(profile: str | None, key: ShardKey) -> str:
    return (
        f"the host of the Spark task that reads {key} doesn't have the AWS profile that aws.profile in the "
        f"settings names ({profile!r}); nothing was read, and landed records are safe; "
        "add the profile to ~/.aws/config there; or remove aws.profile, and give Headrace itself the "
        "profile by AWS_PROFILE: then its keys go with each task"
    )


def _no_role(key: ShardKey) -> str:
    return (
        f"the host of the Spark task that reads {key} has no role, and Headrace itself works by the role of "
        "its own host, so that there are no keys to hand over; "
        "nothing was read, and landed records are safe; give that host a role; "
        "or name a profile by aws.profile, or run Headrace with AWS_PROFILE or keys. "
        "The environment of the task's host doesn't count"
    )
