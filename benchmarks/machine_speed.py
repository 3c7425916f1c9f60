"""Speed of the emulator's machine: seconds and thread instructions per second.

Run from the project's root: ``python benchmarks/machine_speed.py``. The instructions
are counted by a profile of the same launch. Seconds are of the wall clock, and of all
cores together, the best of three.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from gpusolve._emulator import _counts, machine
from gpusolve.emulator import RawKernel

SOURCE = r"""
__global__ void saxpy(int n, float a, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void naive(int n, const float* A, const float* B, float* C) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += A[row * n + k] * B[k * n + column];
    C[row * n + column] = sum;
}

__global__ void tiled(int n, const float* A, const float* B, float* C) {
    __shared__ float a[16][16], b[16][16];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int start = 0; start < n; start += 16) {
        a[y][x] = A[row * n + start + x];
        b[y][x] = B[(start + y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    C[row * n + column] = sum;
}

__global__ void reduction(int n, const float* x, float* sums) {
    __shared__ float part[256];
    const int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}

__global__ void block_scan(int n, const float* x, float* y) {
    __shared__ float part[2][256];
    const int t = threadIdx.x, i = blockIdx.x * 256 + t;
    int from = 0;
    part[0][t] = x[i];
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        part[1 - from][t] = part[from][t] + (t >= step ? part[from][t - step] : 0);
        from = 1 - from;
        __syncthreads();
    }
    y[i] = part[from][t];
}
"""


def instructions(kernel: RawKernel, shape: Any, args: Any) -> int:
    """Thread instructions of a launch."""
    memory = machine.Memory()
    for number, array in enumerate(a for a in args if isinstance(a, np.ndarray)):
        memory.add_array(str(number), array)
    counted = machine.launch(
        kernel.module,
        kernel.symbol,
        *shape,
        kernel._packed(args),
        memory=memory,
        counts=True,
        sample=8,
    )
    assert counted is not None
    tables = _counts.Tables(machine.library(), counted.counts)
    blocks = math.prod(shape[0])
    return int(tables[_counts.SITES][:, 1].sum()) * blocks // min(blocks, 8)


def main() -> None:
    rng = np.random.default_rng(0)
    n, m = 1 << 20, 512
    x, y = rng.random((2, 4 * n), np.float32)
    A, B, C = rng.random((3, m, m), np.float32)
    square = (m // 16, m // 16), (16, 16)
    cases: tuple[tuple[str, Any, Any], ...] = (
        ("saxpy", ((n // 256,), (256,)), (np.int32(n), np.float32(2), x[:n], y[:n])),
        ("tiled", square, (np.int32(m), A, B, C)),
        ("naive", square, (np.int32(m), A, B, C)),
        ("reduction", ((n // 64,), (256,)), (np.int32(4 * n), x, y[: n // 64])),
        ("block_scan", ((n // 256,), (256,)), (np.int32(n), x[:n], y[:n])),
    )
    print(
        f"{'kernel':<12} {'wall ms':>9} {'cores ms':>9} {'M instructions/s a core':>24}"
    )
    for name, shape, args in cases:
        kernel = RawKernel(SOURCE, name)
        count = instructions(kernel, shape, args)
        wall, cpu = math.inf, math.inf
        for _ in range(3):
            start, used = time.perf_counter(), time.process_time()
            kernel(*shape, args)
            wall = min(wall, time.perf_counter() - start)
            cpu = min(cpu, time.process_time() - used)
        print(
            f"{name:<12} {1e3 * wall:9.1f} {1e3 * cpu:9.1f} {count / cpu / 1e6:24.0f}"
        )


if __name__ == "__main__":
    main()
