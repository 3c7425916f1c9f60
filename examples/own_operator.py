"""
An operator of your own: segments and shortest paths
====================================================

A scan works with every associative operator. Here elements are pairs (count, largest
value), in segments of different lengths; and `spmv` finds shortest paths, with the
minimum in place of the sum, and the sum in place of the product.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse

import gpusolve

count_and_largest = gpusolve.Monoid(
    "count_and_largest",
    identity=(0, -np.inf),
    cuda=("a[0] + b[0]", "a[1] > b[1] ? a[1] : b[1]"),
    numpy=lambda a, b: np.stack(
        [a[..., 0] + b[..., 0], np.maximum(a[..., 1], b[..., 1])], axis=-1
    ),
    commutative=True,
)
values = np.array([3.0, 1, 4, 1, 5, 9, 2, 6])
elements = np.column_stack([np.ones(8), values])
flags = gpusolve.segment_flags([3, 1, 4])  # 8 values in three segments
print(gpusolve.segmented_scan(elements, flags, count_and_largest).astype(int).tolist())

roads = scipy.sparse.csr_array(  # from column to row
    ([7.0, 1.0, 2.0, 5.0], ([1, 2, 1, 3], [0, 0, 2, 1])), shape=(4, 4)
)
step = gpusolve.sparse.SpMVPlan(roads, add="min", multiply="add")
distance = np.array([0, np.inf, np.inf, np.inf])
for _ in range(3):
    distance = np.minimum(distance, step(distance))
print("distances from town 0:", distance)
plt.bar(["town 0", "town 1", "town 2", "town 3"], distance)
plt.ylabel("distance from town 0")
plt.show()
