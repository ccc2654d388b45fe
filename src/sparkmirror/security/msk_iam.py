# SPDX-License-Identifier: Apache-2.0
"""AWS_MSK_IAM: a signed request as proof; credentials come from botocore, which is an extra.

Options as those of Amazon's own login module: awsProfileName, awsRoleArn, awsRoleSessionName,
awsRoleExternalId, awsStsRegion. The region is that in the broker's name, or the configured one.
"""

from __future__ import annotations

import re
from typing import Any

from kafka.net.sasl.msk import AwsMskIamClient

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.settings import SaslSettings

_REGION = re.compile(r"\.([a-z]{2,4}(?:-[a-z]+)+-\d{1,2})\.(?:vpce\.)?amazonaws\.com")
_SESSION_NAME = "sparkmirror"


class MskIamClient:
    """One message from us, one from the broker."""

    def __init__(self, settings: SaslSettings, host: str) -> None:
        try:
            from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra
            from botocore.session import Session  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise AuthenticationError(
                "AWS_MSK_IAM needs the package botocore, on the driver and on every executor: "
                "pip install 'sparkmirror[msk-iam]'."
            ) from error
        self._host = host
        self._options = settings.options
        try:
            self._session = Session(profile=self._options.get("awsProfileName"))
            self._message = self._signed()
        except (BotoCoreError, ClientError) as error:
            raise AuthenticationError(
                f"AWS gave no credentials for AWS_MSK_IAM ({type(error).__name__}). Check the "
                "environment, awsProfileName and awsRoleArn.",
                retriable=True,
            ) from error

    def first(self) -> bytes:
        """The signed request."""
        return self._message

    def next(self, challenge: bytes) -> bytes | None:
        """The broker's answer ends it; an empty one is no answer of MSK's."""
        if not challenge:
            raise AuthenticationError("The broker did not answer AWS_MSK_IAM. Is it one of MSK's?")
        return None

    def _signed(self) -> bytes:
        region = region_of(self._host) or self._session.get_config_variable("region")
        if not region:
            raise AuthenticationError(
                "The AWS region is not known: the broker's name has none. Set AWS_DEFAULT_REGION."
            )
        key, secret, session_token = self._credentials(region)
        return message(self._host, region, key, secret, session_token)

    def _credentials(self, region: str) -> tuple[str, str, str | None]:
        role = self._options.get("awsRoleArn")
        if role:
            answer = self._assumed(role, self._options.get("awsStsRegion") or region)
            return answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"]
        found = self._session.get_credentials()
        if found is None:
            raise AuthenticationError(
                "AWS_MSK_IAM found no credentials of AWS. Check the environment, or awsProfileName."
            )
        frozen = found.get_frozen_credentials()
        return frozen.access_key, frozen.secret_key, frozen.token

    def _assumed(self, role: str, region: str) -> dict[str, Any]:
        wanted = {
            "RoleArn": role,
            "RoleSessionName": self._options.get("awsRoleSessionName") or _SESSION_NAME,
        }
        if external := self._options.get("awsRoleExternalId"):
            wanted["ExternalId"] = external
        answer: dict[str, Any] = self._session.create_client("sts", region_name=region).assume_role(
            **wanted
        )
        return dict(answer["Credentials"])


def region_of(host: str) -> str | None:
    """The region in the name of one of MSK's brokers."""
    found = _REGION.search(host)
    return found[1] if found else None


def message(host: str, region: str, key: str, secret: str, session_token: str | None) -> bytes:
    """The signed request that MSK's brokers expect."""
    client = AwsMskIamClient(host, key, secret, region, session_token)
    return bytes(client.first_message())
