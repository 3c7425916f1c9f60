"""Sparse arrays and matrices, of SciPy on a CPU and of CuPy on a GPU."""
