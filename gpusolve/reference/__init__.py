"""The specification: each public algorithm in plain NumPy.

Nothing here knows of a GPU. The tests hold these functions against independent
oracles, and the kernels against these functions.
"""

from .nnls import nnls

__all__ = ["nnls"]
