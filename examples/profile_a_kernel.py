"""
A CUDA kernel of your own, without a GPU
========================================

The emulator runs a kernel on the CPU, and counts what it costs. Here a
column of a tile in shared memory is in one bank, until the tile has a column more.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpusolve.emulator import RawKernel, profile, races

SOURCE = """
template <int width>
__global__ void transpose(const float* x, float* y, int n) {
    __shared__ float tile[32][width];
    const int row = blockIdx.y * 32, column = blockIdx.x * 32;
    tile[threadIdx.y][threadIdx.x] = x[(row + threadIdx.y) * n + column + threadIdx.x];
    __syncthreads();
    y[(column + threadIdx.y) * n + row + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""
n = 256
x = np.random.default_rng(0).random((n, n), np.float32)
for width in (32, 33):
    y = np.zeros_like(x)
    kernel = RawKernel(SOURCE, f"transpose<{width}>")
    with races(), profile() as report:
        kernel((n // 32, n // 32), (32, 32), (x, y, np.int32(n)))
    assert (y == x.T).all()
    print(report)
    (costs,) = report.kernels
    conflicts = costs.shared_wavefronts / costs.shared_requests
    print("wavefronts per request:", conflicts)
    plt.bar(f"tile of 32 x {width}", conflicts)
print(report.predict("H200"))
plt.ylabel("wavefronts per request of shared memory")
plt.show()
