"""The class of kernels: objects of the system's C++ compiler, or PTX.

``GPUSOLVE_EMULATOR=ptx`` lets the kernels of the package run as PTX, on the machine of
``machine/``. Kernels of users are objects.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("GPUSOLVE_EMULATOR", "") != "ptx":
    from ._kernel import Kernel
else:
    from ._ptx_kernel import Kernel

__all__ = ["Kernel"]
