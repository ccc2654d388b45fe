# SPDX-License-Identifier: Apache-2.0
"""With FUZZ_SECONDS a test with generated input continues for so long, in bounded memory."""

from __future__ import annotations

import resource
import time

import pytest
from hypothesis import is_hypothesis_test

from support.fuzzing import SECONDS

_MOST_BYTES = 4 << 30  # of the process: what takes more fails instead of the machine


def pytest_sessionstart() -> None:
    """Whatever a hunt of hours comes across, others on the machine continue."""
    if SECONDS:
        _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, hard))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Each run draws again; None leaves it at pytest's one."""
    if not SECONDS or not is_hypothesis_test(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        pyfuncitem.obj(**arguments)
    return True
