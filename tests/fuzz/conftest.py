# SPDX-License-Identifier: Apache-2.0
"""With FUZZ_SECONDS a test with generated input is run over and over for so long."""

from __future__ import annotations

import time

import pytest
from hypothesis import is_hypothesis_test

from support.fuzzing import SECONDS


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Each run draws anew; None leaves it at pytest's one."""
    if not SECONDS or not is_hypothesis_test(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        pyfuncitem.obj(**arguments)
    return True
