# SPDX-License-Identifier: Apache-2.0
"""AWS_MSK_IAM: a signed request as proof, made anew for each login with keys that are good then."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.aws_credentials import credential_source, region_of
from sparkmirror.security.aws_signing import login_message, signed_token
from sparkmirror.security.settings import AwsSettings
from sparkmirror.security.tokens import Token

_log = logging.getLogger(__name__)


class MskIamClient:
    """One message from us, one from the broker."""

    def __init__(self, settings: AwsSettings, host: str) -> None:
        source = credential_source(settings)
        region = source.region(host)
        self._host = host
        self._message = login_message(host, region, source.keys(region), datetime.now(UTC))

    def first(self) -> bytes:
        """The signed request."""
        return self._message

    def next(self, challenge: bytes) -> bytes | None:
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


def iam_token(settings: AwsSettings, host: str) -> Token:
    """What OAUTHBEARER takes at MSK: signed by us, so there is no endpoint to be asked."""
    source = credential_source(settings)
    region = source.region(host)
    return signed_token(region, source.keys(region), datetime.now(UTC))


def prepare_keys(settings: AwsSettings, hosts: Sequence[str]) -> None:
    """Have the keys that logins at these brokers will need; AuthenticationError if not."""
    source = credential_source(settings)
    region = next(filter(None, map(region_of, hosts)), None) or source.region(hosts[0])
    source.keys(region)
