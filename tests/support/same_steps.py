"""The steps of a model on the host and on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpusolve.gam import BoostedGAM


def assert_same_steps(fitted: Callable[[str], BoostedGAM], device_backend: Any) -> None:
    """`fitted` takes the device of a model, and returns the model."""
    device = fitted("cuda" if device_backend.name == "cuda" else "auto")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GPUSOLVE_EMULATE", raising=False)
        host = fitted("auto")
    np.testing.assert_array_equal(device.selected_, host.selected_)
    np.testing.assert_allclose(
        device.coefficients_, host.coefficients_, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(device.risk_, host.risk_, rtol=1e-12)
