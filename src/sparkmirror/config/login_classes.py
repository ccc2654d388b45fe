# SPDX-License-Identifier: Apache-2.0
"""Java classes that files name in security keys: which of them we are, by name.

Each stands for something that is done here without Java. Any other is code of somebody's that
cannot be run, and without which the login would not be what was meant.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.security.jaas import expected_modules
from sparkmirror.security.settings import Mechanism

_KAFKA = "org.apache.kafka.common.security"
_SHADED = "kafkashaded."  # as some Spark platforms call Kafka's own
_STRIMZI_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
IAM_BEARER_HANDLER = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_MSK_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"

_OAUTH = f"{_KAFKA}.oauthbearer"
_RETRIEVERS = ("ClientCredentialsJwtRetriever", "FileJwtRetriever", "JwtBearerJwtRetriever")

# Key -> the classes whose work is done here.
KNOWN_CLASSES: Mapping[str, tuple[str, ...]] = {
    "sasl.login.callback.handler.class": (
        f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.internals.secured.OAuthBearerLoginCallbackHandler",
        _STRIMZI_HANDLER,
        IAM_BEARER_HANDLER,
        f"{_KAFKA}.authenticator.AbstractLogin$DefaultLoginCallbackHandler",
    ),
    "sasl.client.callback.handler.class": (
        _MSK_HANDLER,
        f"{_KAFKA}.authenticator.SaslClientCallbackHandler",
        f"{_OAUTH}.internals.OAuthBearerSaslClientCallbackHandler",
    ),
    "sasl.login.class": (
        f"{_KAFKA}.authenticator.DefaultLogin",
        f"{_KAFKA}.kerberos.KerberosLogin",
        f"{_OAUTH}.internals.OAuthBearerRefreshingLogin",
    ),
    "sasl.oauthbearer.jwt.retriever.class": (
        f"{_OAUTH}.DefaultJwtRetriever",
        *(f"{_OAUTH}.{name}" for name in _RETRIEVERS),
    ),
    "ssl.engine.factory.class": (f"{_KAFKA}.ssl.DefaultSslEngineFactory",),
}


def is_known(key: str, name: str) -> bool:
    """Whether what the class does is done here."""
    return name.removeprefix(_SHADED) in KNOWN_CLASSES[key]


def retriever(name: str) -> str:
    """Which of Kafka's classes that get tokens it is; empty: the one that looks for itself."""
    found = name.rpartition(".")[2]
    return found if found in _RETRIEVERS else ""


def fits(mechanism: Mechanism, module: str) -> bool:
    """Whether the login module is one of the mechanism's."""
    return module.removeprefix(_SHADED) in expected_modules(mechanism)


def mechanisms_of(module: str) -> list[str]:
    """The mechanisms that a login module is for."""
    return [one.value for one in Mechanism if fits(one, module)]
