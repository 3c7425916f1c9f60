"""
Redshifts of spectra
====================

Four templates with non-negative amplitudes, on a free baseline, are fitted to 200
spectra with inverse variances at 100 redshifts: one call. chi^2 decides.
"""

import matplotlib.pyplot as plt
import numpy as np

import gpusolve

rng = np.random.default_rng(0)
wavelength = np.linspace(4000, 9000, 120)
lines = np.array([[3727, 4340], [4861, 5007], [6563, 6583], [3934, 3969]])
redshifts = np.linspace(0, 0.4, 100)

at = lines * (1 + redshifts[:, None, None])  # (redshifts, templates, lines)
templates = np.exp(-0.5 * ((wavelength[:, None, None] - at[:, None]) / 60) ** 2).sum(-1)
baseline = np.polynomial.legendre.legvander(np.linspace(-1, 1, 120), 2)
A = np.concatenate([templates, np.broadcast_to(baseline, (100, 120, 3))], axis=-1)
lower = np.array([0] * 4 + [-np.inf] * 3)

true = rng.integers(100, size=200)
x = np.column_stack([rng.gamma(2, 0.5, (200, 4)), rng.normal(0, 1, (200, 3))])
error = rng.uniform(0.1, 0.5, (200, 120))
spectra = (A[true] @ x[..., None])[..., 0] + rng.normal(0, error)

fit = gpusolve.lsq_linear(A[:, None], spectra, (lower, np.inf), weights=1 / error**2)
chi2 = fit.rnorm**2  # (redshifts, spectra)
best = chi2.argmin(axis=0)
covariance = fit.covariance()[best, np.arange(200)]  # 0 for templates at their bound
print("systems:", fit.status.size, " right redshifts:", (best == true).mean())
print("median variance of a line:", np.median(covariance[:, 0, 0]).round(3))

plt.plot(redshifts, chi2[:, :3])
plt.gca().set(xlabel="redshift", ylabel="chi^2", title="three spectra")
plt.show()
