# SPDX-License-Identifier: Apache-2.0
"""AWS credentials for MSK IAM authentication, from botocore (an extra).

The order is that of Amazon's login module: a profile, else a role, else botocore's default chain
(environment, files, pod or instance role).

Expiring credentials are cached and refreshed, once for all connections with the same settings.
Other credentials are read for each login, because a file may have changed. One caller fetches;
concurrent callers wait for the same result or error.

botocore and urllib3 log only warnings: at DEBUG they log STS requests and responses, which contain
keys and tokens.
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

_AWS_HOST = re.compile(
    r"\.([a-z]{2,4}(?:-[a-z]+)+-\d{1,2})\.(?:vpce\.)?(?:amazonaws\.com|api\.aws)"
)
_REGION_NAME = re.compile(r"[a-z]{2,4}(?:-[a-z]+)+-\d{1,2}")
_SESSION_NAME = "aws-msk-iam-auth"  # Amazon's default; a role's trust policy may require it
_STS_TIMEOUT_SECONDS = 10  # to connect, and to read
_FETCH_TIMEOUT_SECONDS = 60.0  # a profile's credential_process has no timeout
_LOGGERS = ("botocore", "urllib3")  # at DEBUG they log keys


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """The keys that sign a login."""

    access_key: str
    secret_key: Secret
    session_token: Secret | None = None  # of temporary credentials


def credential_source(settings: AwsSettings) -> AwsCredentialSource:
    """Return the process-wide source for these settings. Thread-safe."""
    return _sources.get(settings)


class AwsCredentialSource:
    """Credentials for one client's settings. Thread-safe."""

    def __init__(self, settings: AwsSettings) -> None:
        self._settings = settings
        self._fetch_lock = threading.Lock()
        # By region:
        self._refreshable: dict[str, Any] = {}  # botocore's credentials that refresh themselves
        self._results: dict[str, AwsCredentials | AuthenticationError] = {}
        self._fetched_at: dict[str, float] = {}

    def region(self, host: str) -> str:
        """Return the region in the broker's host name, else the configured one."""
        found = region_of(host)
        if found is None:
            with _as_authentication_error():
                known = _known_regions()
                named = (one for one in _REGION_NAME.findall(host) if one in known)
                found = next(named, None) or os.environ.get("AWS_REGION")  # not read by botocore
                found = found or self._session().get_config_variable("region")
        if not found:
            raise AuthenticationError(
                f"Cannot find the AWS region of {host}: the host name contains none. Set "
                "AWS_REGION on the driver and on every executor."
            )
        return str(found)

    def credentials(self, region: str) -> AwsCredentials:
        """Return valid credentials; blocks. Raises AuthenticationError if there are none."""
        called_at = time.monotonic()
        if not self._fetch_lock.acquire(timeout=_FETCH_TIMEOUT_SECONDS):
            raise AuthenticationError(
                f"Fetching AWS credentials timed out after {_FETCH_TIMEOUT_SECONDS:g} s. Check the "
                "profile's credential_process, on the driver and on every executor.",
                retriable=True,
            )
        try:
            if self._fetched_at.get(region, -math.inf) <= called_at:
                self._results[region] = self._fetch(region)
                self._fetched_at[region] = time.monotonic()
            result = self._results[region]
        finally:
            self._fetch_lock.release()
        if isinstance(result, AuthenticationError):
            raise _copy_error(result)
        return result

    def _fetch(self, region: str) -> AwsCredentials | AuthenticationError:
        try:
            with _as_authentication_error():
                return self._resolve(region)
        except AuthenticationError as error:
            return _copy_error(error)  # without the traceback: its frames may hold keys

    def _resolve(self, region: str) -> AwsCredentials:
        credentials = self._refreshable.pop(region, None) or self._find(region)
        if credentials is None:
            raise AuthenticationError(
                "No AWS credentials found. Check the environment, ~/.aws and the instance role, on "
                "the driver and on every executor.",
                retriable=True,  # the instance metadata service may not respond for a moment
            )
        frozen = credentials.get_frozen_credentials()
        if isinstance(credentials, import_botocore().credentials.RefreshableCredentials):
            self._refreshable[region] = credentials
        token = Secret(frozen.token) if frozen.token else None
        return AwsCredentials(frozen.access_key, Secret(frozen.secret_key), token)

    def _session(self) -> Any:
        session = import_botocore().session.Session(profile=self._settings.profile)
        limits = import_botocore().config.Config(
            connect_timeout=_STS_TIMEOUT_SECONDS,
            read_timeout=_STS_TIMEOUT_SECONDS,
            retries={"max_attempts": 1},
        )
        session.set_default_client_config(limits)  # also for clients that botocore creates
        return session

    def _find(self, region: str) -> Any:
        session = self._session()
        if not session.get_config_variable("region"):  # for botocore's own STS calls
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

        role_args = {"RoleSessionName": self._settings.session_name or _SESSION_NAME}
        if external := self._settings.external_id:
            role_args["ExternalId"] = external
        fetcher = credentials.AssumeRoleCredentialFetcher(
            client, source, role, extra_args=role_args
        )
        return credentials.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    def _static_credentials(self, credentials: Any) -> Any:
        """Return the configured credentials for assuming the role, if any."""
        key, secret = self._settings.access_key, self._settings.secret_key
        if not key or secret is None or not secret.reveal():
            return None
        token = self._settings.session_token
        return credentials.Credentials(key, secret.reveal(), token.reveal() if token else None)


def region_of(host: str) -> str | None:
    """Return the region in the host name of an MSK broker."""
    found = _AWS_HOST.search(host)
    return found[1] if found else None


@cache  # botocore reads a large file
def _known_regions() -> frozenset[str]:
    session = import_botocore().session.Session()
    partitions = session.get_available_partitions()
    found = (session.get_available_regions("ec2", name) for name in partitions)
    return frozenset(itertools.chain.from_iterable(found))


@contextmanager
def _as_authentication_error() -> Iterator[None]:
    """Convert any error of botocore to AuthenticationError.

    botocore's errors have no common class. Their messages are not shown: they may quote a response
    or a file with keys.
    """
    try:
        yield
    except AuthenticationError:
        raise
    except Exception as error:  # noqa: BLE001 - of any class, and reported upwards
        raise AuthenticationError(
            f"Cannot get AWS credentials ({_reason(error)}). Check the AWS_* variables, ~/.aws, "
            "and the options awsProfileName and awsRoleArn, on the driver and on every executor.",
            retriable=True,
        ) from None


def _copy_error(error: AuthenticationError) -> AuthenticationError:
    return AuthenticationError(str(error), retriable=error.retriable)


def _reason(error: Exception) -> str:
    """Return the class of the error, and AWS's error code if any (AccessDenied, ExpiredToken)."""
    response = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return f"{type(error).__name__}, {code}" if code else type(error).__name__


def import_botocore() -> Any:
    """Import the extra. Raises AuthenticationError if it is missing."""
    try:
        import botocore.auth  # noqa: PLC0415 - an extra
        import botocore.awsrequest  # noqa: PLC0415 - an extra
        import botocore.config  # noqa: PLC0415 - an extra
        import botocore.credentials  # noqa: PLC0415 - an extra
        import botocore.session  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise AuthenticationError(
            "MSK IAM authentication needs the package botocore, on the driver and on every "
            "executor: pip install 'sparkmirror[msk-iam]'."
        ) from error
    for name in _LOGGERS:
        limit_library_logs(name, logging.WARNING)
    return botocore


_sources = SourceCache[AwsSettings, AwsCredentialSource](AwsCredentialSource)
