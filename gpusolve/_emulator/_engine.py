"""The class of kernels: of the machine, or of the compiler of objects."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("GPUSOLVE_EMULATOR", "") != "objects":
    from ._ptx_kernel import Kernel
else:
    from ._kernel import Kernel

__all__ = ["Kernel"]
