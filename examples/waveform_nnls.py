"""
Waveforms of a lidar
====================

A pulse of light returns from the leaves of a tree and from the ground. The waveform is
a sum of delayed pulses, each with its own strength. The weights are inverse variances;
strong returns saturate the detector, so their samples have weight 0.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import convolution_matrix

import gpusolve

rng = np.random.default_rng(3)
pulse = np.exp(-0.5 * (np.arange(-15, 16) / 4) ** 2)
A = convolution_matrix(pulse, 150, mode="same")

strength = np.zeros(150)
strength[[40, 48, 55, 110]] = 0.6, 0.9, 0.5, 1.6
clean = A @ strength
variance = 1e-4 * (1 + 20 * clean)
waveforms = clean + rng.normal(0, np.sqrt(variance), (200, 150))
saturated = clean > 1.3
waveforms[:, saturated] = np.nan

weights = np.where(saturated, 0, 1 / variance)
result = gpusolve.nnls(A, waveforms, weights=weights)
ground = 100 + result.x[:, 100:120].argmax(axis=1)
print("shots:", len(ground), " median arrival from the ground:", np.median(ground))

figure, axis = plt.subplots(layout="constrained")
axis.plot(waveforms[0], color="0.5", label="one waveform; the gap is saturated")
axis.plot(A @ result.x[0], "C0", lw=1, label="fitted")
axis.vlines(np.arange(150), 0, result.x.mean(axis=0), "C3", label="mean strength")
axis.legend(frameon=False)
plt.show()
