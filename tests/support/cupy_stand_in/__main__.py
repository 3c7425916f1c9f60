"""Runs a script with one emulated GPU: ``python -m cupy_stand_in FILE [arguments]``."""

import runpy
import sys

from cupy_stand_in import installed

if __name__ == "__main__":
    del sys.argv[0]
    with installed(1):
        runpy.run_path(sys.argv[0], run_name="__main__")
