"""Runs ``benchmarks/gpu_smoke.py`` on the stand-in for CuPy instead of a GPU."""

from __future__ import annotations

import sys

import cupy_stand_in
import gpu_smoke

if __name__ == "__main__":
    with cupy_stand_in.installed(1):
        sys.exit(gpu_smoke.main())
