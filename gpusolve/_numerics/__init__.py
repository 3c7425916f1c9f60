"""Scaling, certificates and results, which specifications and solvers share."""
