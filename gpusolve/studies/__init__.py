"""Studies: what the papers compare, next to what the package computes with.

The public functions take most of them by name: ``nnls(..., method="fnnls")``,
``scan(..., variant="sweep")`` and ``sparse.multiply(..., method="binary")``.
`boost_directly` makes the boosting steps of Sieminski & Lee by `gpusolve.gemv`. The
others are in NumPy, and count what they do:

- `qr_updating`: the ways to update a QR factorisation when a column enters or leaves.
- `coo_versions`: the versions of an element-wise product of sparse matrices.
- `brent`: the work and depth of the data-parallel blocks, and their schedules on P
  processors.
- `follow`: which columns enter and leave as Luo & Duraiswami's solver solves a system.

The modules `experiments`, `boosting_step` and `coo_figures` have the systems and tables
of the papers on NNLS, on boosting and on element-wise multiplication; `lvis` reads the
waveforms of NASA.
"""

from . import _brent as brent
from . import boosting_step, coo_figures, experiments
from ._boosting_direct import boost_directly
from ._coo_versions import coo_versions
from ._passive_sets import follow
from ._qr_updating import qr_updating

__all__ = [
    "boost_directly",
    "boosting_step",
    "brent",
    "coo_figures",
    "coo_versions",
    "experiments",
    "follow",
    "qr_updating",
]
