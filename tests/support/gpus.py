"""Whether the tests can use a GPU."""

from __future__ import annotations

import functools
import os

STAND_IN = os.environ.get("GPUSOLVE_TEST_STAND_IN", "") not in ("", "0")
"""Whether GPU tests run on the stand-in for CuPy, and so on the emulator."""


@functools.cache
def why_no_cuda() -> str:
    """Why the tests cannot use a GPU; empty if they can."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"CuPy finds no usable GPU: {error}"
    return ""
