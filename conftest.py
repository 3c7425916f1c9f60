"""Makes pytest import the package as users do, before it collects doctests.

Else it would import ``gpusolve/reduce.py`` first and put the module where the function
of that name belongs.
"""

import gpusolve  # noqa: F401
