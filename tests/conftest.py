"""For every test."""

from __future__ import annotations

import ctypes
import os

import pytest

# OpenVINO sends a usage event whenever it is imported, unless this says that it runs in CI.
os.environ.setdefault("CI", "true")

_LIBM = ctypes.CDLL("libm.so.6")
_DEFAULT_FLOATING_POINT = ctypes.c_void_p(-1)  # glibc's FE_DFL_ENV, in fenv.h of x86-64 and of Arm


@pytest.fixture(autouse=True)
def floating_point_as_it_was() -> None:
    """ONNX Runtime's session.set_denormal_as_zero, which the codec sets, stays on the thread that made the session, and so for later tests.
    There it shows as hypothesis refusing to make floats."""
    _LIBM.fesetenv(_DEFAULT_FLOATING_POINT)
