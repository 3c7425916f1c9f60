"""
Deconvolution of spectra
========================

A spectrometer blurs every line. 500 spectra are restored in one call, each as a sum of
non-negative peaks; the certificate says that every restored spectrum is optimal.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import convolution_matrix

import gpusolve

rng = np.random.default_rng(1)
blur = np.exp(-0.5 * (np.arange(-20, 21) / 6) ** 2)
A = convolution_matrix(blur, 200, mode="same")

lines = np.zeros((500, 200))
for spectrum in lines:
    spectrum[rng.choice(200, 5, replace=False)] = rng.uniform(0.5, 2, 5)
measured = lines @ A.T + rng.normal(0, 0.01, lines.shape)

result = gpusolve.nnls(A, measured, l1=0.02)
print("all certified:", (result.status == 0).all(), " largest kkt:", result.kkt.max())

figure, (above, below) = plt.subplots(2, 1, sharex=True, layout="constrained")
above.plot(measured[0], color="0.5")
above.set_title("measured")
below.vlines(np.flatnonzero(lines[0]), 0, lines[0][lines[0] > 0], "0.8", lw=6)
below.vlines(np.arange(200), 0, result.x[0], "C3")
below.set_title("restored (red) over the true lines (grey)")
plt.show()
