"""Checks the installed package: ``python installed.py [object | none]``.

It must have an object that this CPU can run, or ``none``. It runs outside the checkout.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import numpy as np

import gpusolve
from gpusolve._device import object_files, objects
from gpusolve._device.kernels import source_directory


def main(expected: str) -> None:
    package = Path(gpusolve.__file__).parent
    assert not package.is_relative_to(Path(__file__).parents[2]), package
    assert source_directory() == package / "cuda_src"

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        gpusolve.show_config()
    library = objects.load()
    if expected == "none":
        assert library is None
        assert "SciPy and NumPy take its place" in printed.getvalue()
        assert "--no-binary gpusolve" in printed.getvalue()
    else:
        assert library is not None, objects.chosen().reason
        assert objects.sources(library) == object_files.fingerprint(source_directory())
        assert str(objects.chosen().path) in printed.getvalue()

    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((50, 20, 8)), rng.standard_normal((50, 20))
    result = gpusolve.nnls(A, b)
    assert (result.status == 0).all()
    assert result.kkt.max() < 1e-14
    assert result.method_counts["gram" if library else "qr"] == 50
    x, rnorm = gpusolve.nnls([[3.0, 2.0], [1.0, 1.0]], [3.0, 2.0])
    assert x[0] == 0, x
    assert abs(x[1] - 1.6) < 1e-15, x
    assert abs(rnorm - 0.2**0.5) < 1e-15, rnorm
    fit = gpusolve.lsq_linear(A[0], b[0], (-0.1, 0.1))
    assert fit.status == 0
    print(printed.getvalue())


if __name__ == "__main__":
    main(*sys.argv[1:] or ["object"])
