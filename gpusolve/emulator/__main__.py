"""``python -m gpusolve.emulator program.cu`` runs a whole CUDA program on a CPU."""

import sys

from .._emulator._command import main

if __name__ == "__main__":
    sys.exit(main())
