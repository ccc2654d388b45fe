# SPDX-License-Identifier: Apache-2.0
"""Where AWS's keys come from: the options of Amazon's own login module."""

from __future__ import annotations

from sparkmirror.config.security_texts import JaasTexts
from sparkmirror.security.settings import AwsSettings

_PROFILE = "awsProfileName"
_ROLE = "awsRoleArn"
_READ = frozenset(
    {
        *(_PROFILE, _ROLE, "awsRoleSessionName", "awsRoleExternalId", "awsStsRegion"),
        *("awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken"),
    }
)


def read_aws(line: JaasTexts | None) -> AwsSettings:
    """What the line says of a profile or a role; without one, botocore looks around."""
    if line is None:
        return AwsSettings()
    return AwsSettings(
        profile=line.text(_PROFILE),
        role=line.text(_ROLE),
        session_name=line.text("awsRoleSessionName"),
        external_id=line.text("awsRoleExternalId"),
        sts_region=line.text("awsStsRegion"),
        access_key=line.text("awsRoleAccessKeyId"),
        secret_key=line.secret("awsRoleSecretAccessKey"),
        session_token=line.secret("awsRoleSessionToken"),
    )


def idle_options(names: frozenset[str]) -> list[str]:
    """Those of these options that nobody reads; a profile wins against a role, as Amazon has it."""
    beaten = {_ROLE} if _PROFILE in names else set()
    return sorted(names - _READ | (names & beaten))
