"""The signature of a GetRecords request (AWS's Signature Version 4).

botocore's signer gives the same signature, but it is made for requests of any kind, and takes most of the
time of such a short one.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials

JSON: Final = "application/x-amz-json-1.1"


def signed_headers(
    body: bytes, url: str, region: str, *, keys: ReadOnlyCredentials, now: datetime, kind: str = JSON
) -> Mapping[str, str]:
    """The headers of a GetRecords request with this body, with their signature. `kind`: the body's Content-Type."""
    place = urlsplit(url)
    stamp = f"{now:%Y%m%dT%H%M%SZ}"
    scope = (stamp[:8], region, "kinesis", "aws4_request")
    # In alphabetical order, as the signature needs them.
    headers = {
        "content-type": kind,
        "host": place.netloc,
        "x-amz-date": stamp,
        **({"x-amz-security-token": keys.token} if keys.token else {}),
        "x-amz-target": "Kinesis_20131202.GetRecords",
    }
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"POST\n{place.path or '/'}\n\n{lines}\n{names}\n{sha256(body).hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{'/'.join(scope)}\n{sha256(request.encode()).hexdigest()}"
    key = f"AWS4{keys.secret_key}".encode()
    for word in (*scope, text):
        key = hmac.digest(key, word.encode(), "sha256")
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{'/'.join(scope)}, SignedHeaders={names}, Signature={key.hex()}"
    )
    return {**headers, "user-agent": "headrace"}
