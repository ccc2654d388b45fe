# SPDX-License-Identifier: Apache-2.0
"""AWS credentials for logins at MSK, by botocore (an extra).

The order is that of Amazon's login module: a profile, else a role, else what botocore finds:
environment, files, the role of a pod or of a machine.

Credentials that expire are cached and renewed in time, once for all connections with the same
settings. Others are read for each login, because a file may have changed. One caller fetches; the
others wait for the same result or error.

botocore and urllib3 log only warnings: at DEBUG they write requests and answers of STS with keys
and tokens.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import Secret
from sparkmirror.security.redaction import limit_library_logs
from sparkmirror.security.settings import AwsSettings
from sparkmirror.security.source_cache import SourceCache

_AMAZONS = re.compile(r"\.([a-z]{2,4}(?:-[a-z]+)+-\d{1,2})\.(?:vpce\.)?(?:amazonaws\.com|api\.aws)")
_PART_OF_NAME = re.compile(r"[a-z]{2,4}(?:-[a-z]+)+-\d{1,2}")
_SESSION_NAME = "aws-msk-iam-auth"  # Amazon's, since the role's policy may ask for it
_SECONDS = 10  # that STS may take to be reached, and to answer
_PATIENCE_SECONDS = 60.0  # with who asks: a program that a profile names has no time limit
_TALKATIVE = ("botocore", "urllib3")  # loggers whose debug lines show keys


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """Who signs."""

    access_key: str
    secret_key: Secret
    session_token: Secret | None = None  # of keys that expire


def credential_source(settings: AwsSettings) -> AwsCredentialSource:
    """The one source of this process for these settings; any thread may ask."""
    return _sources.get(settings)


class AwsCredentialSource:
    """Keys for one client's settings; any thread may ask."""

    def __init__(self, settings: AwsSettings) -> None:
        self._settings = settings
        self._one_asks = threading.Lock()
        self._kept: dict[str, Any] = {}  # by region: credentials that renew themselves
        self._heard: dict[
            str, AwsCredentials | AuthenticationError
        ] = {}  # by region: the last answer
        self._heard_at: dict[str, float] = {}

    def region(self, host: str) -> str:
        """The one in the broker's name, else the one that is set where this process runs."""
        found = region_of(host)
        if found is None:
            with _as_authentication_error():
                known = _known_regions()
                named = (one for one in _PART_OF_NAME.findall(host) if one in known)
                found = next(named, None) or os.environ.get("AWS_REGION")  # botocore reads another
                found = found or self._session().get_config_variable("region")
        if not found:
            raise AuthenticationError(
                f"The AWS region of {host} is not known: the name has none. Set AWS_REGION, here "
                "and where tasks run."
            )
        return str(found)

    def credentials(self, region: str) -> AwsCredentials:
        """Keys that are good now; AuthenticationError if there are none."""
        came_at = time.monotonic()
        if not self._one_asks.acquire(timeout=_PATIENCE_SECONDS):
            raise AuthenticationError(
                f"AWS's credentials were asked for {_PATIENCE_SECONDS:g} s ago, and there is no "
                "answer. Check the credential_process of the profile, if it has one, here and "
                "where tasks run.",
                retriable=True,
            )
        try:
            if self._heard_at.get(region, -math.inf) <= came_at:
                self._heard[region] = self._fetch(region)
                self._heard_at[region] = time.monotonic()
            heard = self._heard[region]
        finally:
            self._one_asks.release()
        if isinstance(heard, AuthenticationError):
            raise _copy_error(heard)
        return heard

    def _fetch(self, region: str) -> AwsCredentials | AuthenticationError:
        try:
            with _as_authentication_error():
                return self._resolve(region)
        except AuthenticationError as error:
            return _copy_error(error)  # without the way here, on which keys may lie

    def _resolve(self, region: str) -> AwsCredentials:
        credentials = self._kept.pop(region, None) or self._find(region)
        if credentials is None:
            raise AuthenticationError(
                "No credentials of AWS were found. Check the environment, the files and the "
                "role of this machine, here and where tasks run.",
                retriable=True,  # the one who knows a machine's role may be silent for a moment
            )
        frozen = credentials.get_frozen_credentials()
        if isinstance(credentials, import_botocore().credentials.RefreshableCredentials):
            self._kept[region] = credentials
        token = Secret(frozen.token) if frozen.token else None
        return AwsCredentials(frozen.access_key, Secret(frozen.secret_key), token)

    def _session(self) -> Any:
        session = import_botocore().session.Session(profile=self._settings.profile)
        limits = import_botocore().config.Config(
            connect_timeout=_SECONDS, read_timeout=_SECONDS, retries={"max_attempts": 1}
        )
        session.set_default_client_config(limits)  # also for clients that botocore makes itself
        return session

    def _find(self, region: str) -> Any:
        session = self._session()
        if not session.get_config_variable("region"):  # of the STS that botocore itself asks
            session.set_config_variable("region", region)
        role = self._settings.role
        if role is None or self._settings.profile is not None:
            return session.get_credentials()
        return self._assume_role(session, role, self._settings.sts_region or region)

    def _assume_role(self, session: Any, role: str, region: str) -> Any:
        credentials = import_botocore().credentials
        source = self._static_credentials(credentials) or session.get_credentials()
        if source is None:
            return None

        def client(service: str, **settings: Any) -> Any:
            return session.create_client(service, **{**settings, "region_name": region})

        wanted = {"RoleSessionName": self._settings.session_name or _SESSION_NAME}
        if external := self._settings.external_id:
            wanted["ExternalId"] = external
        fetcher = credentials.AssumeRoleCredentialFetcher(client, source, role, extra_args=wanted)
        return credentials.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    def _static_credentials(self, credentials: Any) -> Any:
        """Who asks for the role, if the settings say so."""
        key, secret = self._settings.access_key, self._settings.secret_key
        if not key or secret is None or not secret.reveal():
            return None
        token = self._settings.session_token
        return credentials.Credentials(key, secret.reveal(), token.reveal() if token else None)


def region_of(host: str) -> str | None:
    """The region in the name of one of MSK's brokers."""
    found = _AMAZONS.search(host)
    return found[1] if found else None


@cache  # part of botocore, and read from a large file
def _known_regions() -> frozenset[str]:
    session = import_botocore().session.Session()
    partitions = session.get_available_partitions()
    found = (session.get_available_regions("ec2", name) for name in partitions)
    return frozenset(itertools.chain.from_iterable(found))


@contextmanager
def _as_authentication_error() -> Iterator[None]:
    """Turns errors on the way to AWS into ours.

    They have no class in common: a file may not be there, an answer may be cut off. Their own words
    are about botocore's insides, and may quote an answer or a file with keys.
    """
    try:
        yield
    except AuthenticationError:
        raise
    except Exception as error:  # noqa: BLE001 - of any class, and told upwards
        raise AuthenticationError(
            f"AWS gave no credentials ({_reason(error)}). Check the environment, the files that it "
            "names, and the options awsProfileName and awsRoleArn, here and where tasks run.",
            retriable=True,
        ) from None


def _copy_error(error: AuthenticationError) -> AuthenticationError:
    return AuthenticationError(str(error), retriable=error.retriable)


def _reason(error: Exception) -> str:
    """Of what AWS answers its code: AccessDenied, ExpiredToken; else the name of the error."""
    answer = getattr(error, "response", None)
    code = answer.get("Error", {}).get("Code") if isinstance(answer, dict) else None
    return f"{type(error).__name__}, {code}" if code else type(error).__name__


def import_botocore() -> Any:
    """The package; AuthenticationError says how to get it."""
    try:
        import botocore.auth  # noqa: PLC0415 - an extra
        import botocore.awsrequest  # noqa: PLC0415 - an extra
        import botocore.config  # noqa: PLC0415 - an extra
        import botocore.credentials  # noqa: PLC0415 - an extra
        import botocore.session  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise AuthenticationError(
            "A login at MSK needs the package botocore, on the driver and on every executor: "
            "pip install 'sparkmirror[msk-iam]'."
        ) from error
    for name in _TALKATIVE:
        limit_library_logs(name, logging.WARNING)
    return botocore


_sources = SourceCache[AwsSettings, AwsCredentialSource](AwsCredentialSource)
