"""Runs the tests with OpenBLAS's kernels for another CPU, which round differently.

``python tests/support/core_types.py [pytest options]`` runs pytest with the core type
whose kernels differ most from the default kernels of this CPU, and that it can execute.

NumPy and SciPy each bundle an OpenBLAS with kernels for many CPUs. By default it uses
those for the current CPU. Vector width and fused multiply-add change the order and the
rounding of sums, so a tolerance that is too small for other CPUs fails here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FEATURES = {
    "Prescott": {"pni"},
    "Haswell": {"avx2", "fma"},
    "SkylakeX": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "Sandybridge": {"avx"},
    "Zen": {"avx2", "fma"},
}
"""CPU flags that each core type needs, by Linux's names; the most different first."""

PRINT_KERNELS = """
import numpy, scipy.linalg, threadpoolctl
print(*{library["architecture"] for library in threadpoolctl.threadpool_info()
        if library["internal_api"] == "openblas"})
"""


def cpu_features() -> set[str]:
    """The flags of the first CPU; empty if the system does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return set(flags.partition(":")[2].split())


def environment(core_type: str | None) -> dict[str, str]:
    return {**os.environ, **({"OPENBLAS_CORETYPE": core_type} if core_type else {})}


def kernels(core_type: str | None = None) -> set[str]:
    """The names of the kernels that the OpenBLAS of NumPy and of SciPy use.

    Several core types may share kernels and their name: Zen uses Haswell's kernels.
    """
    run = subprocess.run(
        [sys.executable, "-c", PRINT_KERNELS],
        env=environment(core_type),
        check=True,
        capture_output=True,
        text=True,
    )
    return set(run.stdout.split())


def main(options: list[str]) -> int:
    default = kernels()
    print(f"default kernels of OpenBLAS: {', '.join(default) or 'none found'}")
    for name, needed in FEATURES.items():
        if needed <= cpu_features() and not kernels(name) & default:
            print(f"OPENBLAS_CORETYPE={name}", flush=True)
            command = [sys.executable, "-m", "pytest", *options]
            return subprocess.run(command, env=environment(name)).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
