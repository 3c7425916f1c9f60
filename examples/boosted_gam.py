"""
A boosted additive model: a formula and a map
=============================================

Counts depend on age, on sex, and on the place. The formula is written as in R's mboost.
The numbers of steps show what matters; noise gets few steps, and a flat curve.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpusolve.gam import gamboost

rng = np.random.default_rng(0)
n = 1500
data = {
    "age": rng.uniform(20, 80, n),
    "sex": rng.choice(["f", "m"], n),
    "lon": rng.uniform(0, 1, n),
    "lat": rng.uniform(0, 1, n),
    "noise": rng.normal(0, 1, n),
}
hills = np.sin(5 * data["lon"]) * np.cos(5 * data["lat"])
risk = 1 + 0.02 * (data["age"] - 50) + 0.4 * (data["sex"] == "m") + 0.8 * hills
data["cases"] = rng.poisson(np.exp(risk))

formula = "cases ~ bbs(age) + bols(sex) + bspatial(lon, lat, knots=8) + bbs(noise)"
model = gamboost(formula, data, family="poisson", max_iter=100)
names, steps = np.unique(np.array(model.names_)[model.selected_], return_counts=True)
print(dict(zip(names.tolist(), steps.tolist(), strict=True)))

model.plot()
plt.show()
