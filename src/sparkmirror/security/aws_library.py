# SPDX-License-Identifier: Apache-2.0
"""botocore, which is an extra, with a log that shows no keys.

At DEBUG it writes whole requests and answers of STS, and with them keys and tokens; the causes of
its warnings may quote an answer or a file. The same goes for urllib3, which it talks with: the
address at which a container finds its keys is nobody's business.
"""

from __future__ import annotations

import logging
from typing import Any

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.library_logs import let_through

_TALKATIVE = ("botocore", "urllib3")


def library() -> Any:
    """The package; AuthenticationError says how to get it."""
    try:
        import botocore.config  # noqa: PLC0415 - an extra
        import botocore.credentials  # noqa: PLC0415 - an extra
        import botocore.session  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise AuthenticationError(
            "A login at MSK needs the package botocore, on the driver and on every executor: "
            "pip install 'sparkmirror[msk-iam]'."
        ) from error
    for name in _TALKATIVE:
        let_through(name, logging.WARNING)
    return botocore
