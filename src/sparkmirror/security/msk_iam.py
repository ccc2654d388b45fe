# SPDX-License-Identifier: Apache-2.0
"""MSK IAM authentication: a presigned request, made for each login with the current credentials.

botocore signs a GET of `/` (SigV4). The request is never sent: the broker checks the signature.
AWS_MSK_IAM sends its parameters as JSON with lower-case names. OAUTHBEARER sends the request's URL
in base64:

    Action                 kafka-cluster:Connect
    X-Amz-Algorithm        AWS4-HMAC-SHA256
    X-Amz-Credential       <access key>/<date>/<region>/kafka-cluster/aws4_request
    X-Amz-Date             20300102T030405Z
    X-Amz-Expires          900
    X-Amz-Security-Token   only of temporary credentials
    X-Amz-SignedHeaders    host
    X-Amz-Signature        over all of the above
"""

from __future__ import annotations

import base64
import json
import logging
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from sparkmirror import __version__
from sparkmirror.errors import AuthenticationError
from sparkmirror.model import Secret
from sparkmirror.security.aws_credentials import (
    AwsCredentials,
    credential_source,
    import_botocore,
)
from sparkmirror.security.settings import AwsSettings
from sparkmirror.security.tokens import Token

LIFETIME_SECONDS = 900  # MSK's maximum, and the value of Amazon's library

_VERSION = "2020_10_22"
_SERVICE = "kafka-cluster"
_USER_AGENT = f"sparkmirror/{__version__}"

_log = logging.getLogger(__name__)


class MskIamClient:
    """The AWS_MSK_IAM mechanism: one client message, one broker response."""

    def __init__(self, settings: AwsSettings, host: str) -> None:
        source = credential_source(settings)
        region = source.region(host)
        self._host = host
        self._message = sign_login_message(host, region, source.credentials(region))

    def initial_response(self) -> bytes:
        return self._message

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """Log the request id, which AWS support needs, and finish."""
        try:
            request_id = json.loads(challenge)["request-id"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise AuthenticationError(
                f"{self._host} sent an invalid AWS_MSK_IAM response. Is it an MSK broker?"
            ) from None
        _log.debug("Authenticated at %s with AWS_MSK_IAM, request %r", self._host, request_id)
        return None


def sign_iam_token(settings: AwsSettings, host: str) -> Token:
    """Return an OAUTHBEARER token for MSK, signed locally without a token endpoint."""
    source = credential_source(settings)
    region = source.region(host)
    return sign_token(region, source.credentials(region))


def sign_login_message(host: str, region: str, keys: AwsCredentials) -> bytes:
    """Return the AWS_MSK_IAM message for a broker."""
    host = host.lower()  # as botocore signs it
    signed = {name.lower(): text for name, text in _signed(host, region, keys).items()}
    content = {"version": _VERSION, "host": host, "user-agent": _USER_AGENT, **signed}
    return json.dumps(content, separators=(",", ":")).encode()


def sign_token(region: str, keys: AwsCredentials) -> Token:
    """Return an OAUTHBEARER token for all MSK brokers of a region."""
    host = f"kafka.{region}.amazonaws.com"
    signed = _signed(host, region, keys)
    query = urlencode(signed | {"User-Agent": _USER_AGENT}, quote_via=quote, safe="")
    text = base64.urlsafe_b64encode(f"https://{host}?{query}".encode()).decode().rstrip("=")
    signed_at = datetime.strptime(signed["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return Token(Secret(text), signed_at.timestamp() + LIFETIME_SECONDS)


def _signed(host: str, region: str, keys: AwsCredentials) -> dict[str, str]:
    botocore = import_botocore()
    token = None if keys.session_token is None else keys.session_token.reveal()
    credentials = botocore.credentials.Credentials(keys.access_key, keys.secret_key.reveal(), token)
    place = f"[{host}]" if ":" in host else host
    action = quote(f"{_SERVICE}:Connect", safe="")
    request = botocore.awsrequest.AWSRequest("GET", f"https://{place}/?Action={action}")
    signer = botocore.auth.SigV4QueryAuth(credentials, _SERVICE, region, expires=LIFETIME_SECONDS)
    signer.add_auth(request)
    return dict(parse_qsl(urlsplit(request.url).query))
