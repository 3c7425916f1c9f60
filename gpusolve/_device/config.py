"""The configuration that a bug report needs."""

from __future__ import annotations

import importlib.metadata
import platform
from importlib.util import find_spec


def show_config() -> None:
    """Print versions, the CUDA device, and the emulator's state.

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

    return {
        "gpusolve": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "numpy": _version("numpy"),
        "scipy": _version("scipy"),
        **_cuda(),
        "kernels": str(source_directory()),
        "emulator": "on" if emulating() else "off (GPUSOLVE_EMULATE=1 turns it on)",
        "compiler": _emulator.compiler() or "no C++ compiler found",
        "cache": str(_emulator.cache_directory()),
    }


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
        }
    except Exception as error:
        return {"cupy": f"does not work: {error}"}
