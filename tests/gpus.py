"""Whether there is a GPU to test on."""

from __future__ import annotations

import functools
import os

STAND_IN = os.environ.get("GPUSOLVE_TEST_STAND_IN", "") not in ("", "0")
"""Whether the tests for a GPU run on the stand-in for CuPy, and so on the emulator."""


@functools.cache
def why_no_cuda() -> str:
    """Why there is no GPU to test on; empty where there is."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"CuPy finds no GPU that it can use: {error}"
    return ""
