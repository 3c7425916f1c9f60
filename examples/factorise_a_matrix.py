"""
Factorising a matrix with holes
===============================

Non-negative factors, ``X = W H``, by alternating calls of ``nnls``: all rows of W share
H, and all columns of H share W. A missing entry has weight 0.
"""

import matplotlib.pyplot as plt
import numpy as np

import gpusolve

rng = np.random.default_rng(0)
wavelength = np.linspace(0, 1, 80)
centres = np.array([0.25, 0.5, 0.8])
spectra = np.exp(-0.5 * ((wavelength - centres[:, None]) / 0.08) ** 2)
amounts = rng.gamma(0.5, size=(300, 3))
X = amounts @ spectra + 0.01 * rng.random((300, 80))
present = rng.random(X.shape) > 0.2
holes = np.where(present, X, 0)


def factorise(X, weights=None, components=3, sweeps=60):
    other = None if weights is None else weights.T
    H = np.random.default_rng(1).random((components, X.shape[1]))
    for _ in range(sweeps):
        W = gpusolve.nnls(H.T, X, weights=weights).x
        H = gpusolve.nnls(W, X.T, weights=other).x.T
    return W, H


W, H = factorise(X)
print("misfit, all entries:", round(np.linalg.norm(X - W @ H) / np.linalg.norm(X), 4))
W, H = factorise(holes, present.astype(float))
print("largest error of a missing entry:", abs(X - W @ H)[~present].max().round(3))

plt.plot(wavelength, H.T / H.max(axis=1))
plt.gca().set(xlabel="wavelength", ylabel="component", title="from a matrix with holes")
plt.show()
