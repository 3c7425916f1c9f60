"""The C++ compiler that builds the objects of the package."""

from __future__ import annotations

import os
import shlex
import shutil
import sys


def cpp_compiler() -> str | None:
    """``$CXX``, else a compiler on the path; None on Windows, or if there is none."""
    if sys.platform == "win32":
        return None
    for command in filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")):
        if shutil.which(shlex.split(command)[0]):
            return command
    return None
