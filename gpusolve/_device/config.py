"""The configuration that a bug report needs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from importlib.util import find_spec
from pathlib import Path

from .threads import blas, cores

REBUILD = (
    "to compile it, with a C++ compiler: `pip install --force-reinstall --no-binary "
    "gpusolve gpusolve`, or `pip install -e .` in a checkout"
)
"""How a user gets the object of the CPU solver."""


SETTINGS = "CUDA_PATH", "CUDA_VISIBLE_DEVICES"
"""Variables of the environment that decide a path, besides those of this package."""


def show_config() -> None:
    """Print versions, the devices, and what else decides how a call is computed.

    It names the GPU, and whether its float64 is so slow that Gram matrices are computed
    in float32; the object and the threads that solve on a CPU; the emulator; and the
    variables of the environment that are set.

    See Also
    --------
    gpusolve.emulator.Device

    Examples
    --------
    >>> import gpusolve
    >>> gpusolve.show_config()  # doctest: +ELLIPSIS
    gpusolve   ...
    """
    for name, value in config().items():
        print(f"{name:<10} {value}")


def config() -> dict[str, str]:
    """The configuration as names and values. Never raises."""
    from .. import __version__, _emulator
    from .kernels import emulating, source_directory

    kernels = source_directory()
    return {
        "gpusolve": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "numpy": _version("numpy"),
        "scipy": _version("scipy"),
        **_cuda(),
        "threads": f"{cores()}, {_blas()}",
        "object": _object(kernels),
        "kernels": str(kernels),
        "emulator": "on" if emulating() else "off (GPUSOLVE_EMULATE=1 turns it on)",
        "nvrtc": _emulator.why_missing() or "found, for the emulator",
        "cache": str(_emulator.cache_directory()),
        "settings": _settings(),
    }


def _settings() -> str:
    """The variables of the environment that are set, with their values."""
    found = (
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith("GPUSOLVE_") or name in SETTINGS
    )
    return " ".join(found) or "no variable is set"


def _blas() -> str:
    """The BLAS libraries of this process, with their threads."""
    return ", ".join(
        f"{found['internal_api']} {found['version']} with {found['num_threads']}"
        for found in blas().info()
        if found["user_api"] == "blas"
    )


def _object(kernels: Path) -> str:
    """The compiled CPU solver, or why there is none and how to get it."""
    from . import object_files, objects

    library, path, reason = objects.chosen()
    if library is None:
        advice = "" if os.environ.get("GPUSOLVE_OBJECT") else f"; {REBUILD}"
        return f"none, SciPy and NumPy take its place ({reason}){advice}"
    found = f"{objects.instruction_set(library)}, {path}"
    if objects.sources(library) == object_files.fingerprint(kernels):
        return found
    return f"{found}, built from other sources than {kernels / 'cpu'}; {REBUILD}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cuda() -> dict[str, str]:
    if find_spec("cupy") is None:
        return {"cupy": "not installed"}
    try:
        import cupy

        from .kernels import CudaDevice

        facts = {"cupy": cupy.__version__}
        runtime = cupy.cuda.runtime
        try:
            count = runtime.getDeviceCount()
        except runtime.CUDARuntimeError as error:  # none, or a driver that is too old
            return {**facts, "device": f"none: {error}"}
        device = cupy.cuda.Device()
        name = runtime.getDeviceProperties(device.id)["name"].decode()
        return {
            **facts,
            "cuda": f"runtime {runtime.runtimeGetVersion()}, "
            f"driver {runtime.driverGetVersion()}",
            "device": f"{device.id}: {name}, sm_{device.compute_capability}"
            + (f" (one of {count})" if count > 1 else ""),
            "float64": "slow, Gram matrices in float32"
            if CudaDevice(device.id).has_slow_float64
            else "in all steps",
        }
    except Exception as error:
        return {"cupy": f"does not work: {error}"}
