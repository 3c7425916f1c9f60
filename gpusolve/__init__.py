"""Batched solvers for NVIDIA GPUs, on CuPy; the same calls run on NumPy."""
