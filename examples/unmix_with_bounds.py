"""
Unmixing with bounds
====================

Each pixel of an image is a mixture of four materials on a background of unknown sign.
Abundances are between 0 and 1, and the background is free: 4096 systems, one call.
"""

import matplotlib.pyplot as plt
import numpy as np

import gpusolve

rng = np.random.default_rng(0)
wavelength = np.linspace(0, 1, 60)
centres = np.array([0.2, 0.4, 0.6, 0.8])
materials = np.exp(-0.5 * ((wavelength[:, None] - centres) / 0.12) ** 2)
A = np.column_stack([materials, np.ones(60)])

row, column = np.indices((64, 64)) / 63
abundances = np.stack(
    [(1 - row) * (1 - column), (1 - row) * column, row * (1 - column), row * column], -1
)
background = 0.3 * np.sin(7 * row)[..., None]
pixels = abundances @ materials.T + background + rng.normal(0, 0.02, (64, 64, 60))

bounds = [0, 0, 0, 0, -np.inf], [1, 1, 1, 1, np.inf]
fit = gpusolve.lsq_linear(A, pixels, bounds)
error = abs(fit.x[..., :4] - abundances).max()
print("systems:", fit.status.size, " certified:", (fit.status == 0).all())
print("largest error of an abundance:", error.round(2))

figure, axes = plt.subplots(1, 5, figsize=(10, 2.4), layout="constrained")
titles = "material 1", "material 2", "material 3", "material 4", "background"
for axis, values, title in zip(axes, np.moveaxis(fit.x, -1, 0), titles, strict=True):
    axis.imshow(values)
    axis.set(title=title, xticks=[], yticks=[])
plt.show()
