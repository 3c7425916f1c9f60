"""Time batched NNLS on the paper's experiments beside SciPy on all cores.

    python benchmarks/nnls.py                       # 48 systems of full size
    python benchmarks/nnls.py --systems 2 --size 40 # a toy, for instance emulated

SciPy runs one system to a call in a warm joblib pool of as many processes as there
are cores. The package runs on the GPU where there is one, timed with CUDA events, its
first call (which compiles) apart; else on the CPU. Results print as a Markdown table.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from experiments import EXPERIMENTS
from joblib import Parallel, delayed
from scipy.optimize import nnls as scipy_nnls
from timing import cupy_with_a_device

import gpusolve
from gpusolve._nnls.cpu import cores


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """The median wall time of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def cuda_seconds(call: Callable[[], Any], repeats: int) -> float:
    """The median time of a call on the current stream, by CUDA events."""
    from cupyx.profiler import benchmark

    return float(np.median(benchmark(call, n_repeat=repeats, n_warmup=1).gpu_times))


def by_scipy(pool: Any, A: Any, b: Any) -> Any:
    """SciPy on every system, through the pool."""
    each = np.broadcast_to(A, (len(b), *A.shape[-2:]))
    return pool(delayed(scipy_nnls)(*system) for system in zip(each, b, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", type=int, default=48)
    parser.add_argument("--size", type=int, help="rows and columns, as the paper's")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    cupy = cupy_with_a_device()
    print(f"gpusolve {gpusolve.__version__}, NumPy {np.__version__}, {cores()} cores, ")
    print(f"{platform.machine()}, {'CUDA' if cupy else 'CPU'}\n")
    print(
        "| experiment | dtype | systems | size | gpusolve s | SciPy s | ratio "
        "| updates | downdates | max kkt / eps |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    pool = Parallel(n_jobs=cores())
    for name, make in EXPERIMENTS.items():
        sizes = {} if options.size is None else {"size": options.size}
        A, b = make(options.systems, **sizes)
        scipy = seconds(partial(by_scipy, pool, A, b), options.repeats)
        for dtype in (np.float64, np.float32):
            A_d, b_d = A.astype(dtype), b.astype(dtype)
            if cupy:
                A_d, b_d = cupy.asarray(A_d), cupy.asarray(b_d)
            timer = cuda_seconds if cupy else seconds
            ours = timer(partial(gpusolve.nnls, A_d, b_d), options.repeats)
            result = gpusolve.nnls(A_d, b_d)
            print(
                f"| {name} | {np.dtype(dtype)} | {len(b)} | {A.shape[-1]} "
                f"| {ours:.3f} | {scipy:.3f} | {ours / scipy:.2f} "
                f"| {float(result.n_updates.mean()):.1f} "
                f"| {float(result.n_downdates.mean()):.1f} "
                f"| {float(result.kkt.max()) / np.finfo(dtype).eps:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
