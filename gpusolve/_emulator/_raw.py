"""`RawKernel` and `RawModule`, with the signatures of CuPy."""

from __future__ import annotations

import functools
import hashlib
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import _device
from ._compiler import cache_directory
from ._host_only import check_kernels
from ._kernel import Kernel
from ._registers import ASSUMED, registers_of
from ._variables import Bytes, Variables

_PREPROCESSOR = re.compile(r"(?:-D|--define-macro=|-I|--include-path=)(?=\S)")
_WITHOUT_EFFECT = re.compile(
    r"--?(std=|gpu-architecture|arch|use_fast_math|fmad|ftz|prec-|maxrregcount|G$|O\d$|w$"
    r"|lineinfo|generate-line-info|device-debug|default-device|restrict|extra-device"
    r"|device-as-default-execution-space|ptxas-options|Xptxas)"
)

_DEFAULT_DYNAMIC_BYTES = 48 * 1024
"""Shared memory of a block, unless a kernel asks for more."""

_EMPTY = "__global__ void emulator_empty() {}"
"""A kernel to load the variables of a module without knowing its kernels."""


class RawKernel(Kernel):
    """A CUDA kernel of your own, compiled for the CPU, like ``cupy.RawKernel``.

    The first compilation takes some seconds; the result is cached.

    Parameters
    ----------
    code : str or Path
        CUDA C++ text, or a ``.cu`` file. Headers are searched next to the file.
    name : str
        The kernel, with its template arguments: ``"scale<float>"``.
    options : sequence of str, optional
        Of the compiler: ``-D`` and ``-I``. Options for speed, debugging and the
        architecture have no effect.
    backend : {"nvrtc", "nvcc"}, optional
        Has no effect.
    translate_cucomplex : False
        Complex numbers of ``cuComplex.h`` are not translated.
    enable_cooperative_groups : bool, optional
        Whether all blocks must be resident at the same time.
    jitify : bool, optional
        Has no effect: a kernel may include headers of the standard library.

    Raises
    ------
    CompileError
        If the kernel does not compile; or without Linux and a C++ compiler.
    ValueError
        If an option is not known.

    See Also
    --------
    RawModule, profile, races, memcheck

    Notes
    -----
    Launch it as ``kernel(grid, block, args, shared_mem=0)``, with NumPy arrays and
    scalars of the types of the parameters. It raises KernelError for an access outside
    an array, a barrier that not all threads reach, or another error that a GPU does not
    report.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> kernel = gpusolve.emulator.RawKernel(
    ...     '''
    ...     extern "C" __global__ void scale(float* x, int n, float factor) {
    ...         const int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...         if (i < n) x[i] *= factor;
    ...     }
    ...     ''',
    ...     "scale",
    ... )
    >>> x = np.arange(4, dtype=np.float32)
    >>> with gpusolve.emulator.profile() as report:
    ...     kernel((1,), (32,), (x, np.int32(4), np.float32(10)))
    >>> x
    array([ 0., 10., 20., 30.], dtype=float32)
    >>> report.kernels[0].arrays["x"].bytes
    32
    """

    def __init__(
        self,
        code: str | Path,
        name: str,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        *,
        enable_cooperative_groups: bool = False,
        jitify: bool | None = None,
    ) -> None:
        if translate_cucomplex:
            raise ValueError("translate_cucomplex must be False, got True")
        if backend not in ("nvrtc", "nvcc"):
            raise ValueError(f"backend must be 'nvrtc' or 'nvcc', got {backend!r}")
        path = code if isinstance(code, Path) else stored(code)
        check_kernels(path.read_text(), path.name)
        super().__init__(path, name, path.parent, "", _preprocessor(options))
        self.code, self.name, self.options, self.backend = code, name, options, backend
        self.enable_cooperative_groups = enable_cooperative_groups
        self._dynamic_bytes = _DEFAULT_DYNAMIC_BYTES - self._static_shared_memory()

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[object],
        *,
        shared_mem: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Run the kernel, and return when it has ended.

        Parameters
        ----------
        grid, block : tuple of 1 to 3 int
        args : sequence of ndarray, NumPy scalar, Python number or None
            None is a null pointer.
        shared_mem : int, optional
            Bytes of dynamic shared memory per block, at most
            `max_dynamic_shared_size_bytes`.
        cooperative : bool, optional
            As `enable_cooperative_groups`, for this launch.

        Raises
        ------
        KernelError
            If the kernel fails. The arrays then keep their values.
        TypeError, ValueError
            If the arguments or the launch shape are invalid.
        """
        __tracebackhide__ = True
        if shared_mem > self._dynamic_bytes:
            raise ValueError(
                f"shared_mem must be at most {self._dynamic_bytes}, got {shared_mem}; "
                "set the kernel's max_dynamic_shared_size_bytes for more"
            )
        super().__call__(
            grid,
            block,
            args,
            shared_mem=shared_mem,
            cooperative=cooperative or self.enable_cooperative_groups,
        )

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """The most dynamic shared memory of a launch, in bytes. It can be set."""
        return self._dynamic_bytes

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        _device.check_shared_memory(self._static_shared_memory(), size)
        self._dynamic_bytes = size

    @property
    def attributes(self) -> dict[str, int]:
        """What the kernel needs, for compute capability 8.6.

        The registers are NVRTC's if CuPy is installed, otherwise 32.
        """
        return {
            "max_threads_per_block": _device.threads_per_block,
            "shared_size_bytes": self._static_shared_memory(),
            "num_regs": registers_of(self._source, 86) or ASSUMED,
            "binary_version": 86,
            "max_dynamic_shared_size_bytes": self._dynamic_bytes,
        }


class RawModule:
    """Kernels of a source that share its variables, like ``cupy.RawModule``.

    Parameters
    ----------
    code : str or Path
        CUDA C++ text, or a ``.cu`` file.
    options : sequence of str, optional
        As for `RawKernel`.
    backend, translate_cucomplex, enable_cooperative_groups, jitify : optional
        As for `RawKernel`.
    name_expressions : sequence of str, optional
        Has no effect: every instance of a template can be asked for.

    See Also
    --------
    RawKernel

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve import emulator
    >>> module = emulator.RawModule(
    ...     '''
    ...     __constant__ float factor;
    ...     template <class T> __global__ void scale(T* x) { x[threadIdx.x] *= factor; }
    ...     '''
    ... )
    >>> module.get_global("factor").view(np.float32)[0] = 3
    >>> x = np.arange(4.0)
    >>> module.get_function("scale<double>")((1,), (4,), (x,))
    >>> x
    array([0., 3., 6., 9.])
    """

    def __init__(
        self,
        code: str | Path,
        *,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None,
        jitify: bool | None = None,
    ) -> None:
        self.code, self.options, self.backend = code, options, backend
        self.enable_cooperative_groups = enable_cooperative_groups
        self.name_expressions = name_expressions
        self._path = code if isinstance(code, Path) else stored(code)
        self._kernel = functools.partial(
            RawKernel,
            self._path,
            options=options,
            backend=backend,
            translate_cucomplex=translate_cucomplex,
            enable_cooperative_groups=enable_cooperative_groups,
        )
        self._variables = Variables(self._path.read_text())
        self._kernels: dict[str, RawKernel] = {}

    def get_function(self, name: str) -> RawKernel:
        """The kernel of this name. It reads and writes the module's variables."""
        if name not in self._kernels:
            self._kernels[name] = self._kernel(name)
            self._kernels[name].variables = self._variables
        return self._kernels[name]

    def get_global(self, name: str) -> Bytes:
        """The bytes of a `__device__` or `__constant__` variable.

        An array of uint8, whose ``view`` has the variable's type. What is written to it
        is what the next launch reads.

        Raises
        ------
        ValueError
            If the module has no such variable.
        """
        options = _preprocessor(self.options)
        empty = Kernel(self._path, "emulator_empty", self._path.parent, _EMPTY, options)
        try:
            return self._variables.of(empty.program, name)
        except KeyError:
            raise ValueError(f"the module has no variable {name!r}") from None


def _preprocessor(options: Sequence[str]) -> tuple[str, ...]:
    """The options of the preprocessor. ValueError for an option that is not known."""
    found = []
    for option in options:
        if start := _PREPROCESSOR.match(option):
            letter = "-D" if "D" in start[0] or "define" in start[0] else "-I"
            found.append(letter + option[start.end() :])
        elif not _WITHOUT_EFFECT.match(option):
            raise ValueError(
                f"options must be -Dname=value or -Idirectory, or options without an "
                f"effect on the emulator, got {option!r}"
            )
    return tuple(found)


def stored(text: str) -> Path:
    """A file in the cache with this text; the emulator compiles files."""
    directory = cache_directory() / "sources"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = directory / name / "kernel.cu"
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        Path(file.name).replace(path)  # other processes never read an incomplete file
    return path
