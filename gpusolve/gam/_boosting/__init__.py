"""Boosting of equal splines with the squared error: products, smoothing, kernels."""
