# SPDX-License-Identifier: Apache-2.0
"""AWS_MSK_IAM: a signed request as proof, made anew for each login with keys that are good then.

The request is signed with AWS's keys (SigV4) and never sent: the broker checks the signature.

What MSK takes as proof: a request that AWS's keys have signed and that nobody sends (SigV4).

Pure: keys and the time come in. The signature is over a GET of `/` with these parameters, in this
order, and the header `host`; AWS_MSK_IAM carries them as JSON with names in lower case, OAUTHBEARER
as the address of that request in base64:

    Action                 kafka-cluster:Connect
    X-Amz-Algorithm        AWS4-HMAC-SHA256
    X-Amz-Credential       <access key>/<date>/<region>/kafka-cluster/aws4_request
    X-Amz-Date             20300102T030405Z
    X-Amz-Expires          900
    X-Amz-Security-Token   of keys that expire
    X-Amz-SignedHeaders    host
    X-Amz-Signature        over all of the above
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
from datetime import UTC, datetime
from urllib.parse import quote

from sparkmirror import __version__
from sparkmirror.errors import AuthenticationError
from sparkmirror.model import Secret
from sparkmirror.security.aws_credentials import AwsCredentials, credential_source
from sparkmirror.security.settings import AwsSettings
from sparkmirror.security.tokens import Token

LIFETIME_SECONDS = 900  # the most that MSK takes, and what Amazon's own library asks for

_VERSION = "2020_10_22"
_ALGORITHM = "AWS4-HMAC-SHA256"
_SERVICE = "kafka-cluster"
_USER_AGENT = f"sparkmirror/{__version__}"
_OF_NOTHING = hashlib.sha256(b"").hexdigest()  # the request has no body

_log = logging.getLogger(__name__)


class MskIamClient:
    """One message from us, one from the broker."""

    def __init__(self, settings: AwsSettings, host: str) -> None:
        source = credential_source(settings)
        region = source.region(host)
        self._host = host
        self._message = sign_login_message(
            host, region, source.credentials(region), datetime.now(UTC)
        )

    def initial_response(self) -> bytes:
        """The signed request."""
        return self._message

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """The broker's answer ends it; whoever helps at Amazon asks for the id in it."""
        try:
            answer = json.loads(challenge)
            request_id = answer["request-id"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise AuthenticationError(
                "The broker answered AWS_MSK_IAM with something else than MSK does. Is it one of "
                "MSK's?"
            ) from None
        _log.debug("logged in at %s with AWS_MSK_IAM, request %r", self._host, request_id)
        return None


def sign_iam_token(settings: AwsSettings, host: str) -> Token:
    """What OAUTHBEARER takes at MSK: signed by us, so there is no endpoint to be asked."""
    source = credential_source(settings)
    region = source.region(host)
    return sign_token(region, source.credentials(region), datetime.now(UTC))


def sign_login_message(host: str, region: str, keys: AwsCredentials, now: datetime) -> bytes:
    """What AWS_MSK_IAM says to the broker of that name; `now` is in UTC."""
    signed = {name.lower(): text for name, text in _signed(host, region, keys, now).items()}
    content = {"version": _VERSION, "host": host, "user-agent": _USER_AGENT, **signed}
    return json.dumps(content, separators=(",", ":")).encode()


def sign_token(region: str, keys: AwsCredentials, now: datetime) -> Token:
    """What OAUTHBEARER says to any broker of the region; `now` is in UTC."""
    host = f"kafka.{region}.amazonaws.com"
    query = _query(_signed(host, region, keys, now) | {"User-Agent": _USER_AGENT})
    address = f"https://{host}?{query}".encode()
    text = base64.urlsafe_b64encode(address).decode().rstrip("=")
    return Token(Secret(text), now.timestamp() + LIFETIME_SECONDS)


def _signed(host: str, region: str, keys: AwsCredentials, now: datetime) -> dict[str, str]:
    date, moment = f"{now:%Y%m%d}", f"{now:%Y%m%dT%H%M%SZ}"
    scope = f"{date}/{region}/{_SERVICE}/aws4_request"
    parameters = {
        "Action": f"{_SERVICE}:Connect",
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{keys.access_key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(LIFETIME_SECONDS),
    }
    if keys.session_token is not None:
        parameters["X-Amz-Security-Token"] = keys.session_token.reveal()
    parameters["X-Amz-SignedHeaders"] = "host"
    request = "\n".join(["GET", "/", _query(parameters), f"host:{host}", "", "host", _OF_NOTHING])
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{keys.secret_key.reveal()}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    signature = _hmac(key, f"{_ALGORITHM}\n{moment}\n{scope}\n{digest}").hex()
    return parameters | {"X-Amz-Signature": signature}


def _query(parameters: dict[str, str]) -> str:
    return "&".join(
        f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in parameters.items()
    )


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
