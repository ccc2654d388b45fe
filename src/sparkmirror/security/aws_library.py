# SPDX-License-Identifier: Apache-2.0
"""botocore, which is an extra, with a log that shows no keys.

At DEBUG it writes whole requests and answers of STS, and with them keys and tokens; the causes of
its warnings may quote an answer or a file. So of its log only warnings are let through, without
their causes. The same goes for urllib3, which it talks with: the address at which a container finds
its keys is nobody's business.
"""

from __future__ import annotations

import logging
from typing import Any

from sparkmirror.errors import AuthenticationError

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
    # A logger's filter does not see what the loggers below it write, so each one has it.
    for name in list(logging.root.manager.loggerDict):
        if name.split(".")[0] in _TALKATIVE:
            logging.getLogger(name).addFilter(_only_warnings)  # nothing, if it is there already
    return botocore


def _only_warnings(record: logging.LogRecord) -> bool:
    cause = record.exc_info[0] if record.exc_info else None
    if cause is not None:
        record.msg, record.args = f"{record.getMessage()} ({cause.__name__})", ()
    record.exc_info = record.exc_text = None
    return record.levelno >= logging.WARNING
