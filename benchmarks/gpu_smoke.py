"""Check every public function on a GPU, once in each of its paths, against NumPy.

    python benchmarks/gpu_smoke.py --list          # the machine, and the checks
    python benchmarks/gpu_smoke.py                 # all checks
    python benchmarks/gpu_smoke.py --run "reduce, tree" "scan, warp"

`gpu_report.py` runs this file in a process that it can kill and start again. A kernel
that hangs can only be stopped in this way, and after an illegal memory access no CUDA
call of a process succeeds. Each line of the output is JSON.

The calls are those of `tests/support/kernel_calls.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np
from harness import cupy_with_device

from gpusolve._device.config import config

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from kernel_calls import (
    Call,
    Maker,
    Settings,
    boosting,
    effects,
    named_calls,
    nnls_in_regions,
    partition,
    path_of,
    scan_of_bytes,
    spmv,
    xp_issparse,
)

Result = dict[str, Any]

LAUNCHES = 300
"""Launches of a kernel in a stress check."""
FEW_LAUNCHES = 3
"""Launches in small runs, on the emulator."""
NO_GPU = 3
"""The exit status without a GPU."""
OCCUPYING_BYTES = 2**28
"""An array that four additions read and write: 0.5 ms at 4 TB/s, to delay inputs."""
TRACEBACK_LINES = 15
"""The last lines of a traceback: the report of a failed check stays short."""


class Check(NamedTuple):
    """A check; `run` returns its measurements, and raises on a wrong result.

    `make` returns the call that is checked, if there is a single call.
    """

    name: str
    run: Callable[[Settings], Result]
    part: str = "smoke"
    sanitized: bool = False
    make: Callable[[Settings], Call] | None = None


def checked(make: Maker) -> Callable[[Settings], Result]:
    """Call three times: the first call compiles, the second is timed, the third runs on
    a stream that does not wait for the null stream."""

    def run(settings: Settings) -> Result:
        call, xp = make(settings), settings.xp
        right = call.expected()
        seconds = {}
        for name in ("first", "second"):
            given = call.arguments_on_gpu(xp)
            xp.cuda.Device().synchronize()
            begin = time.perf_counter()
            found = call.on(given)
            xp.cuda.Device().synchronize()
            seconds[name] = time.perf_counter() - begin
            call.compare(found, right)
        try:
            check_another_stream(settings, call, right)
        except Exception as error:
            raise RuntimeError("fails on a non-blocking stream") from error
        return seconds

    return run


def check_another_stream(settings: Settings, call: Call, right: Any) -> None:
    """Delay the inputs on the stream of another library.

    Work that does not wait for this stream reads zeros.
    """
    xp = settings.xp
    given = call.arguments_on_gpu(xp)
    numbers = [value.data if xp_issparse(value) else value for value in given]
    arrays = [one for one in numbers if hasattr(one, "get") and hasattr(one, "dtype")]
    kept = [array.copy() for array in arrays]
    for array in arrays:
        array[...] = 0
    busy = xp.zeros(settings.size(OCCUPYING_BYTES, 8), np.uint8)
    xp.cuda.Device().synchronize()
    stream = xp.cuda.Stream(non_blocking=True)
    with xp.cuda.Stream.from_external(stream):
        for _ in range(4):
            busy += np.uint8(1)
        for array, value in zip(arrays, kept, strict=True):
            array[...] = value
        call.compare(call.on(given), right)


# ---- two threads ---------------------------------------------------------------------


def two_threads(settings: Settings) -> Result:
    """The same calls in two threads, in opposite order, each on its own stream."""
    makers = [
        partial(scan_of_bytes, 4),
        partial(scan_of_bytes, 32),
        partial(nnls_in_regions, 3),
        partial(spmv, "csr", {}),
        boosting,
        partial(partition, False),
    ]
    calls = [make(settings) for make in makers]
    right = [call.expected() for call in calls]
    begin = time.perf_counter()

    def work(step: int) -> None:
        with settings.xp.cuda.Stream(non_blocking=True):
            for call, expected in list(zip(calls, right, strict=True))[::step]:
                call.compare(call.on(call.arguments_on_gpu(settings.xp)), expected)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (1, -1)))
    return {"first": time.perf_counter() - begin}


# ---- stress --------------------------------------------------------------------------


def repeated(settings: Settings, launch: Callable[[int], object]) -> Result:
    """The mean seconds of a launch, and the number of launches."""
    count, begin = settings.size(LAUNCHES, FEW_LAUNCHES), time.perf_counter()
    for number in range(count):
        launch(number)
    seconds = (time.perf_counter() - begin) / count
    return {"second": seconds, "launches": count}


def stress_look_back(size: int, settings: Settings) -> Result:
    """Repeat a scan, and compare every element each time."""
    xp, call = settings.xp, scan_of_bytes(size, settings)
    right, given = xp.asarray(call.expected()), call.arguments_on_gpu(xp)

    def scan(launch: int) -> None:
        wrong = int((call.on(given) != right).sum())
        assert wrong == 0, f"launch {launch}: {wrong} of {right.size} numbers are wrong"

    return repeated(settings, scan)


def stress_grid_barrier(settings: Settings) -> Result:
    """Repeat a path: always the same bits, and the learners that the CPU selects."""
    X, y = effects(settings)
    steps, xp = settings.size(50, 5), settings.xp
    right = path_of(X, y, max_iter=steps)
    there = xp.asarray(X), xp.asarray(y)
    first = path_of(*there, max_iter=steps)
    np.testing.assert_array_equal(first.selected, right.selected)
    np.testing.assert_allclose(first.risk, right.risk, rtol=1e-7)

    def boost(launch: int) -> None:
        path = path_of(*there, max_iter=steps)
        for name in ("selected", "updates", "risk"):
            same = getattr(path, name).tobytes() == getattr(first, name).tobytes()
            assert same, f"launch {launch}: {name} differs from the first launch"

    return repeated(settings, boost)


# ---- the list ------------------------------------------------------------------------

SANITIZED = (
    "reduce, chunked",
    "reduce, atomic",
    "scan, 4-byte elements",
    "scan, 32-byte elements",
    "scan, hierarchical",
    "segmented_scan, bits",
    "stable_partition, mask",
    "gemv, blocks for a row",
    "gemv, long columns",
    "sparse.multiply, merge",
    "sparse.spmv, csr",
    "nnls, 3 of 3 regions in shared memory",
    "nnls, by warps",
    "nnls, by blocks",
    "nnls, by the grid",
    "gam.BoostedGAM, path",
)
"""Each kernel that shares memory within a block or between blocks, once."""


def checks() -> list[Check]:
    """All checks in the order in which they run: the solvers before the blocks."""
    smoke = [
        Check(name, checked(make), sanitized=name in SANITIZED, make=make)
        for name, make in named_calls()
    ]
    stress = [
        *(
            (f"look-back, {size}-byte elements", partial(stress_look_back, size))
            for size in (4, 16, 32)
        ),
        ("grid barrier", stress_grid_barrier),
    ]
    return [
        *smoke,
        Check("two threads", two_threads),
        *(Check(name, run, "stress") for name, run in stress),
    ]


# ---- facts ---------------------------------------------------------------------------


def facts() -> dict[str, str]:
    """Describe the machine; "why not" says why a GPU is missing."""
    cupy = cupy_with_device()
    found = {
        **harness.facts(cupy),
        **config(),
    }
    if cupy is None:
        found["why not"] = found.get("device", f"CuPy: {found['cupy']}")
    return found


# ---- the process ---------------------------------------------------------------------


def outcome(check: Check, settings: Settings) -> Result:
    """Run a check, and return its result; an exception becomes a text."""
    begin = time.perf_counter()
    try:
        result = {"ok": True, **check.run(settings)}
    except Exception:
        lines = traceback.format_exc().splitlines()[-TRACEBACK_LINES:]
        result = {"ok": False, "reason": "\n".join(lines)}
    return {**result, "seconds": time.perf_counter() - begin}


def is_lost(xp: Any) -> bool:
    """Whether the device no longer works, as after an illegal memory access."""
    try:
        xp.cuda.Device().synchronize()
        return int(xp.ones(1, np.int32).sum()) != 1
    except Exception:
        return True


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="do not run them")
    parser.add_argument("--run", nargs="*", metavar="NAME", help="only these checks")
    parser.add_argument("--small", action="store_true", help="small inputs")
    parser.add_argument("--seconds", type=float, default=60, help="limit on a check")
    parser.add_argument(
        "--no-pool", action="store_true", help="a separate allocation for each array"
    )
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Return 0 if all checks passed, 1 if a check failed, `NO_GPU` without a GPU."""
    options = arguments(given)
    os.environ.pop("GPUSOLVE_EMULATE", None)
    written = sys.stdout

    def say(line: Result) -> None:
        print(json.dumps(line), file=written, flush=True)

    with contextlib.redirect_stdout(sys.stderr):
        every = {check.name: check for check in checks()}
        if options.list:
            listed = [(c.name, c.part, c.sanitized) for c in every.values()]
            say({"facts": facts(), "checks": listed})
            return 0
        cupy = cupy_with_device()
        if cupy is None:
            return NO_GPU
        if options.no_pool:
            cupy.cuda.set_allocator(None)
        settings = Settings(cupy, options.small)
        passed = True
        for name in every if options.run is None else options.run:
            say({"begins": name})
            faulthandler.dump_traceback_later(options.seconds, exit=True)
            result = outcome(every[name], settings)
            faulthandler.cancel_dump_traceback_later()
            say({"name": name, **result})
            passed = passed and result["ok"]
            if not result["ok"] and is_lost(cupy):
                break
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
