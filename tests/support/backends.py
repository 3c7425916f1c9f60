"""Parametrisations that several test files share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from gpusolve._emulator import nvcc, why_missing

CUDA = pytest.param("cuda", marks=pytest.mark.gpu)

both_kinds = pytest.mark.parametrize("exclusive", [False, True])
"""Inclusive and exclusive scans."""

numpy_only = pytest.mark.parametrize("backend", ["numpy"], indirect=True)
without_gpu = pytest.mark.parametrize("backend", ["numpy", "emulator"], indirect=True)
"""Restrictions of the `backend` fixture."""

also_by_fallback = pytest.mark.parametrize(
    "backend", ["numpy", "fallback", "emulator", CUDA], indirect=True
)
"""All backends, and NumPy as if the CPU solver had not been compiled."""

needs_emulator = pytest.mark.skipif(
    bool(why_missing()), reason="the emulator cannot run: see `show_config()`"
)
needs_nvcc = pytest.mark.skipif(
    bool(why_missing() or nvcc.why_missing()),
    reason="whole programs need nvcc: `make test` installs it",
)


def by_object(solve: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a solver for which the compiled object computes, not the emulator."""
    with mock.patch.dict(os.environ):
        os.environ.pop("GPUSOLVE_EMULATE", None)
        return solve(*arguments, **options)
