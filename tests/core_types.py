"""Runs tests under other core types of OpenBLAS: the rounding of other CPUs.

``python tests/core_types.py [pytest options]`` runs pytest under two core types that
this CPU can execute, and whose kernels are not those that it uses without being told.

NumPy and SciPy each bundle an OpenBLAS, which has kernels for many CPUs and takes those
of the CPU it runs on. Vector width and fused multiply-add change the order and the
rounding of its sums, so a tolerance that only holds on one CPU fails here.
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
"""What each needs of the CPU, as Linux calls it. The first ones differ most."""

COUNT = 2

ASK = """
import numpy, scipy.linalg, threadpoolctl
print(*{library["architecture"] for library in threadpoolctl.threadpool_info()
        if library["internal_api"] == "openblas"})
"""


def cpu_features() -> set[str]:
    """The flags of the first CPU; none where Linux does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return set(flags.partition(":")[2].split())


def environment(core_type: str | None) -> dict[str, str]:
    return {**os.environ, **({"OPENBLAS_CORETYPE": core_type} if core_type else {})}


def kernels(core_type: str | None = None) -> set[str]:
    """What the OpenBLAS of NumPy and that of SciPy call the kernels they then use.

    A core type may have another's kernels, and their name: Zen those of Haswell.
    """
    run = subprocess.run(
        [sys.executable, "-c", ASK],
        env=environment(core_type),
        check=True,
        capture_output=True,
        text=True,
    )
    return set(run.stdout.split())


def main(options: list[str]) -> int:
    tested, chosen = kernels(), []
    print(f"OpenBLAS uses its kernels for {', '.join(tested) or 'nothing'}")
    for name, needed in FEATURES.items():
        if len(chosen) < COUNT and needed <= cpu_features():
            found = kernels(name)
            if not found & tested:
                tested |= found
                chosen.append(name)
    failed = []
    for name in chosen:
        print(f"OPENBLAS_CORETYPE={name}", flush=True)
        command = [sys.executable, "-m", "pytest", *options]
        if subprocess.run(command, env=environment(name)).returncode:
            failed.append(name)
    if failed:
        print(f"failed with OPENBLAS_CORETYPE={', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
