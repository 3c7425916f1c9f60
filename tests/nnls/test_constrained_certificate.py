"""What the certificate of linear constraints counts as a violation."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gpusolve._nnls.constrained_certificate import relative_lack


def test_a_violation_is_relative_to_the_terms_not_to_the_coefficients() -> None:
    """``1e6 x_2 - x_1 >= 0`` at (1e-6, 0), where a unit of x_2 has terms of 1e6."""
    system = SimpleNamespace(C=np.array([[-1.0, 1e6]]), inequalities=1, norm=np.ones(2))
    lack = terms = np.array([[1e-6]])
    found = relative_lack(system, lack, terms, np.ones(1))  # type: ignore[arg-type]
    assert found == pytest.approx(1e-6 / (1e-4 * 1e6), rel=1e-3)
    rounded = np.finfo(float).eps * 1e6
    lack = terms = np.array([[rounded]])
    found = relative_lack(system, lack, terms, np.ones(1))  # type: ignore[arg-type]
    assert found < 1e-10
