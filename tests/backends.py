"""Restrictions of the `backend` fixture to some backends."""

from __future__ import annotations

import pytest

numpy_only = pytest.mark.parametrize("backend", ["numpy"], indirect=True)
without_gpu = pytest.mark.parametrize("backend", ["numpy", "emulator"], indirect=True)
