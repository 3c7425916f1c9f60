"""`RawKernel` and `RawModule`, with the signatures of CuPy."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from . import _device
from ._arguments import Parameter
from ._errors import CompileError
from ._kernel import Kernel
from .module import Module, PtxError, Variables, demangled
from .nvrtc import (
    ASSUMED_REGISTERS,
    KernelSource,
    cache_directory,
    registers_of,
    write_whole,
)

_DEFAULT_DYNAMIC_BYTES = 48 * 1024
"""Shared memory of a block, unless a kernel asks for more."""


class RawKernel(Kernel):
    """A CUDA kernel of your own, which runs on the CPU, like ``cupy.RawKernel``.

    NVRTC compiles it to PTX, without a GPU; the result is cached.

    Parameters
    ----------
    code : str or Path
        CUDA C++ text, or a ``.cu`` file. Headers are searched next to the file.
    name : str
        The kernel, with its template arguments: ``"scale<float>"``.
    options : sequence of str, optional
        Of NVRTC, such as ``-D`` and ``-I``. ``-arch`` chooses the architecture of the
        PTX, which is otherwise ``compute_90``.
    backend : {"nvrtc", "nvcc"}, optional
        Has no effect.
    translate_cucomplex : False
        Complex numbers of ``cuComplex.h`` are not translated.
    enable_cooperative_groups : bool, optional
        Whether all blocks must be resident at the same time.
    jitify : bool, optional
        Has no effect.

    Raises
    ------
    CompileError
        If the kernel does not compile; or if NVRTC is not installed.

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
        module = RawModule(
            code,
            options=options,
            backend=backend,
            translate_cucomplex=translate_cucomplex,
            enable_cooperative_groups=enable_cooperative_groups,
        )
        self._of(module, name)

    def _of(self, module: RawModule, name: str) -> RawKernel:
        """Make this the kernel of a module."""
        if module._program is None:
            self._compile(module._source(name), module._variables)
        else:
            self._load(module._program, name, demangled(name))
            self._parameters = [
                Parameter(f"argument {number + 1}", False, "?", size)
                for number, (_, size) in enumerate(self._kernel.parameters)
            ]
        self.name, self.code, self.options = name, module.code or "", module.options
        self.backend = module.backend
        self.enable_cooperative_groups = module.enable_cooperative_groups
        self._dynamic_bytes = _DEFAULT_DYNAMIC_BYTES - self._kernel.shared_bytes
        return self

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
        _device.check_shared_memory(self._kernel.shared_bytes, size)
        self._dynamic_bytes = size

    @property
    def attributes(self) -> dict[str, int]:
        """What the kernel needs, for compute capability 8.6.

        The registers of a kernel of PTX are not known: they are taken as 32.
        """
        registers = registers_of(self._source, 86) if self._source else None
        return {
            "max_threads_per_block": self._kernel.most_threads,
            "shared_size_bytes": self._kernel.shared_bytes,
            "num_regs": registers or ASSUMED_REGISTERS,
            "binary_version": 86,
            "max_dynamic_shared_size_bytes": self._dynamic_bytes,
        }


class RawModule:
    """Kernels of a source that share its variables, like ``cupy.RawModule``.

    Parameters
    ----------
    code : str or Path, optional
        CUDA C++ text, or a ``.cu`` file.
    options : sequence of str, optional
        As for `RawKernel`.
    backend, translate_cucomplex, enable_cooperative_groups, jitify : optional
        As for `RawKernel`.
    name_expressions : sequence of str, optional
        Has no effect: every instance of a template can be asked for.
    ptx : str or Path, optional
        PTX, or a file of PTX, in place of `code`: of Numba, Triton or another compiler.
        Its kernels are named by their symbols. Their arguments are arrays, NumPy
        scalars or None, whose types are not checked, but their sizes.

    Raises
    ------
    CompileError
        If the PTX has an instruction that the emulator does not know.

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
        code: str | Path | None = None,
        *,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None,
        jitify: bool | None = None,
        ptx: str | Path | None = None,
    ) -> None:
        if (code is None) == (ptx is None):
            raise ValueError("RawModule must have either code or ptx")
        if translate_cucomplex:
            raise ValueError("translate_cucomplex must be False, got True")
        if backend not in ("nvrtc", "nvcc"):
            raise ValueError(f"backend must be 'nvrtc' or 'nvcc', got {backend!r}")
        self.code, self.options, self.backend = code, options, backend
        self.enable_cooperative_groups = enable_cooperative_groups
        self.name_expressions = name_expressions
        self._variables: Variables = {}
        self._kernels: dict[str, RawKernel] = {}
        self._program: Module | None = None
        if code is not None:
            self._path = code if isinstance(code, Path) else stored(code)
        else:
            text = ptx.read_text() if isinstance(ptx, Path) else str(ptx)
            try:
                self._program = Module(text, self._variables)
            except PtxError as error:
                raise CompileError(str(error)) from None

    def _source(self, name: str) -> KernelSource:
        return KernelSource(
            self._path, name, self._path.parent, "", tuple(self.options)
        )

    def get_function(self, name: str) -> RawKernel:
        """The kernel of this name. It reads and writes the module's variables."""
        if name not in self._kernels:
            self._kernels[name] = RawKernel.__new__(RawKernel)._of(self, name)
        return self._kernels[name]

    def get_global(self, name: str) -> npt.NDArray[np.uint8]:
        """The bytes of a `__device__` or `__constant__` variable.

        An array of uint8, whose ``view`` has the variable's type. What is written to it
        is what the next launch reads.

        Raises
        ------
        ValueError
            If the module has no such variable.
        """
        symbol = name
        if self._program is None:
            try:
                compiled = self._source(name).compile_variable(name)
            except CompileError:
                raise ValueError(f"the module has no variable {name!r}") from None
            (symbol,) = compiled.symbols
            Module(compiled.ptx, self._variables)
        if symbol not in self._variables:
            raise ValueError(f"the module has no variable {name!r}")
        return self._variables[symbol]


def stored(text: str) -> Path:
    """A file in the cache with this text; the emulator compiles files."""
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = cache_directory() / "sources" / name / "kernel.cu"
    if not path.exists():
        write_whole(path, text)
    return path
