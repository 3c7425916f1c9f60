"""The emulator reports faulty kernels and runs correct kernels."""

from __future__ import annotations

import ctypes.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator
from together import together

# The package's own kernels have definitions. Where the emulator looks for libraries,
# memory without values, and the size of shared memory are not public either.
from gpusolve import _emulator, emulator
from gpusolve._emulator._device import SHARED_MEMORY
from gpusolve.emulator import KernelError, RawKernel

KERNELS = Path(__file__).parents[1] / "faulty_kernels"
ORDERS = ("forward", "reverse", "random")

pytestmark = needs_emulator


def kernel(file: str, instance: str) -> RawKernel:
    return RawKernel(KERNELS / f"{file}.cu", instance)


def run_one_block(file: str, instance: str, *args: Any, threads: int = 32) -> None:
    kernel(file, instance)((1,), (threads,), args)


def orders_that_satisfy(check: Callable[[], bool]) -> set[str]:
    """The orders of threads under which `check` is true."""
    satisfied = set()
    for order in ORDERS:
        with emulator.schedule(order, seed=3):
            if check():
                satisfied.add(order)
    return satisfied


# ---- correct kernels -----------------------------------------------------------------


@together(
    ("grid", "block"),
    [((1,), (32,)), ((5,), (256,)), ((2, 3), (16, 8)), ((2, 3, 2), (8, 4, 32))],
)
def test_every_launch_shape_visits_each_element(
    schedule: str, grid: Any, block: Any
) -> None:
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    n = blocks * threads - 7
    visits, counted = np.zeros(n, np.int32), np.empty(blocks, np.int32)
    kernel("orders", "visit")(grid, block, (np.int32(n), visits, counted))
    assert np.all(visits == 1)
    np.testing.assert_array_equal(counted, [threads] * (blocks - 1) + [threads - 7])


def test_overlapping_arrays_share_memory(schedule: str) -> None:
    x = np.arange(8.0)
    copy_element(x[3:], 4, x[:5], 4)
    np.testing.assert_array_equal(x, [0, 1, 2, 3, 7, 5, 6, 7])


def test_structure_with_a_vector_as_argument(schedule: str) -> None:
    layout = {"names": ["tag", "value"], "formats": ["i1", "4f4"], "offsets": [0, 16]}
    tagged = np.array((3, [1, 2, 3, 4]), np.dtype({**layout, "itemsize": 32}))[()]
    x = np.zeros((2, 4), np.float32)
    run_one_block("vectors", "add", tagged, x, threads=2)
    np.testing.assert_array_equal(x, [[1, 0, 0, 3]] * 2)


def test_fast_lanes_do_not_overwrite_values_of_slow_lanes(schedule: str) -> None:
    x = np.arange(32, dtype=np.int32)
    rounds = 3 + np.arange(32) // 2
    swapped = np.where(rounds % 2 == 1, np.arange(32) ^ 1, np.arange(32))
    run_one_block("orders", "exchange_in_pairs", x, np.int32(3))
    np.testing.assert_array_equal(x, swapped + rounds)


@together(("by_atomics", "most"), [("true", 999), ("false", 4)])
def test_threads_and_blocks_may_wait_for_each_other_in_loops(
    schedule: str, by_atomics: str, most: int
) -> None:
    """Few blocks without atomics: a switch to another block takes 0.5 s."""
    one_by_one = kernel("orders", f"one_by_one<{by_atomics}>")
    blocks = min(most, one_by_one.resident_blocks(64, 0))
    sequence = np.empty(blocks, np.int32)
    one_by_one((blocks,), (64,), (np.zeros(1, np.int32), sequence))
    np.testing.assert_array_equal(sequence, np.arange(blocks))


def arrivals(order: Any, seed: int = 0) -> Any:
    """Threads in the order in which they run, one row for each block."""
    x = np.empty((3, 96), np.int32)
    schedule = emulator.schedule(order, seed) if order else nullcontext()
    with schedule:
        kernel("orders", "arrival")((3,), (96,), (x,))
    return x


def test_order_of_threads() -> None:
    threads = np.arange(96)
    np.testing.assert_array_equal(arrivals("forward"), [threads] * 3)
    np.testing.assert_array_equal(arrivals("reverse"), [threads[::-1]] * 3)
    rows = np.vstack([arrivals("random", seed) for seed in (0, 1)])
    assert len(np.unique(rows, axis=0)) == 6, "blocks and seeds must differ"
    assert len(np.unique(rows[:, 0] // 32)) > 1, "another warp must be first"
    np.testing.assert_array_equal(np.sort(rows, axis=1), [threads] * 6)


def history(seed: int) -> Any:
    """The last writer, as each block reads it eight times."""
    last, reads = np.zeros(1, np.int32), np.empty((12, 8), np.int32)
    with emulator.schedule("random", seed):
        kernel("orders", "race_for_last")((12,), (32,), (last, reads))
    return reads


def test_a_seed_repeats_the_interleaving_of_blocks() -> None:
    histories = [history(seed) for seed in range(4)]
    own = np.arange(12)[:, None]
    for seed, reads in enumerate(histories):
        np.testing.assert_array_equal(history(seed), reads)
        assert np.any(reads != own), "the blocks did not interleave"
    assert len(np.unique(histories, axis=0)) == 4


# ---- synchronisation -----------------------------------------------------------------


@pytest.mark.parametrize("faulty", [False, True])
def test_missing_syncwarp(faulty: bool) -> None:
    def is_shifted() -> bool:
        x = np.arange(32, dtype=np.int32)
        run_one_block("synchronisation", f"shift<{str(faulty).lower()}>", x)
        return np.array_equal(x, np.minimum(np.arange(32) + 1, 31))

    # In forward order each lane reads before the next one writes. Other orders differ.
    assert orders_that_satisfy(is_shifted) == ({"forward"} if faulty else set(ORDERS))


WAITING = "16 of 32 threads: waiting in"
SYNCHRONISATION = {
    "two_barriers": (
        "divergent barrier.*\n"
        rf" +{WAITING} __syncthreads at synchronisation.cu:13, "
        r"first thread \(0, 0, 0\)\n"
        rf" +{WAITING} __syncthreads at synchronisation.cu:11, "
        r"first thread \(16, 0, 0\)"
    ),
    "wrong_mask": (
        r"thread \(\d+, 0, 0\), block \(0, 0, 0\), synchronisation.cu:18: "
        r"__shfl_xor_sync was called by lane \d+, which is not in its mask 0x0000ffff"
    ),
    "outside_mask": r"cu:18: __shfl_xor_sync reads lane \d+, .* mask 0x0000ffff",
    "deadlock": (
        rf"deadlock.*\n.*{WAITING} __shfl_xor_sync with mask 0xffffffff at .*cu:18.*\n"
        rf".*{WAITING} __syncthreads at .*cu:13"
    ),
    "two_operations": rf"deadlock.*\n.*{WAITING} __ballot_.*\n.*{WAITING} __any_sync",
    "two_masks": (
        rf"deadlock.*\n.*{WAITING} .* mask 0xffffffff .*\n.*{WAITING} .* 0xffff0001"
    ),
}


def wait_and_add(fault: str, n: int, threads: int = 32) -> Any:
    x = np.arange(threads, dtype=np.int32)
    name = f"wait_and_add<{fault}>"
    run_one_block("synchronisation", name, np.int32(n), x, threads=threads)
    return x


@together("fault", SYNCHRONISATION)
def test_synchronisation_faults_are_reported(schedule: str, fault: str) -> None:
    with pytest.raises(KernelError, match=SYNCHRONISATION[fault]):
        wait_and_add(fault, 16 if fault == "outside_mask" else 32)


@together(("n", "threads"), [(20, 32), (32, 64)])
def test_a_return_before_a_barrier_is_reported_by_the_checks(
    schedule: str, n: int, threads: int
) -> None:
    """Volta and later GPUs wait for the other threads; earlier GPUs may hang.

    A mask may have lanes that have returned.
    """
    x = np.arange(threads)
    expected = np.where(x < n, (x ^ 1) + 1, x)
    np.testing.assert_array_equal(wait_and_add("none", n, threads), expected)
    message = (
        r"divergent barrier: some threads have returned .* Volta and later .*\n"
        rf".*{n} of {threads} threads: waiting in .* synchronisation.cu:13.*\n"
        rf".*{threads - n} of {threads} threads: returned"
    )
    with emulator.races(), pytest.raises(KernelError, match=message):
        wait_and_add("none", n, threads)


def test_a_mask_may_have_lanes_beyond_the_block(schedule: str) -> None:
    """CUDA asks for the lanes that have not returned."""
    found = wait_and_add("none", 20, 20)
    np.testing.assert_array_equal(found, (np.arange(20) ^ 1) + 1)


# ---- memory --------------------------------------------------------------------------

copy = "unchecked_copy", "copy_element<double>"


def copy_element(x: Any, source: int, y: Any, target: int) -> None:
    run_one_block(*copy, x, np.int32(source), y, np.int32(target), threads=1)


FIVE, OTHER = np.zeros((2, 4001))[:, 2000:2005]
"""Far from each other: an element outside of an array is in no other array."""
TWELVE = np.arange(12.0)
READS = r"thread \(0, 0, 0\), block \(0, 0, 0\), unchecked_copy\.cu:6: reads element"

OUTSIDE: list[tuple[Any, int, Any, int, str]] = [
    *((FIVE, 0, OTHER, index, rf"writes element {index} of y .*0 to 4")
      for index in (-600, -1, 5, 6, 600, 17_000_000)),
    *((FIVE, index, OTHER, 0, rf"{READS} {index} of x ")
      for index in (-(2**31), -600, -1, 5, 6, 600, 17_000_000, 2**31 - 1)),
    *((np.zeros((0, 3)), index, OTHER, 0, f"element {index} of x .* is empty")
      for index in (-1, 0)),
    (TWELVE, 0, OTHER[::-1], -5, r"element -5 of y .* -4 to 0"),
    (TWELVE, 0, OTHER[:3], 3, r"element 3 of y .* 0 to 2"),
    (None, 1, OTHER, 0, "reads address 0x8, through a null pointer"),
]  # fmt: skip
"""The arguments of `copy_element`, and the report."""


@together(("x", "source", "y", "target", "message"), OUTSIDE)
def test_accesses_outside_of_arrays_and_views(
    schedule: str, x: Any, source: int, y: Any, target: int, message: str
) -> None:
    with pytest.raises(KernelError, match=message):
        copy_element(x, source, y, target)
    assert not OTHER.any()


def test_access_to_a_view_that_goes_backwards(schedule: str) -> None:
    x = np.arange(12.0)
    copy_element(x[7:3:-1], -3, x, 11)
    assert x[11] == 4


def test_uninitialised_memory_is_poisoned(schedule: str) -> None:
    """With 40 blocks, several use the same shared memory one after the other."""
    for written in (33, 32):
        x = np.zeros(32, np.float32)
        kernel("memory", "read_shared")((40,), (32,), (x, np.int32(written)))
        np.testing.assert_array_equal(x, [1] * 31 + [1 if written == 33 else np.nan])


def test_report_of_an_overrun_names_the_array(schedule: str) -> None:
    """Of a shared array that is followed by other shared memory."""
    fill, y = kernel("teaching", "fill_both"), np.zeros(32, np.int32)
    fill((1,), (32,), (np.int32(0), y), shared_mem=128)
    message = r"(element|byte) \d+ of table, which has (64 el|256 b)"
    with pytest.raises(KernelError, match=message):
        fill((1,), (32,), (np.int32(1), y), shared_mem=128)


# ---- features that teaching kernels use ----------------------------------------------


def test_shared_memory_of_any_name(schedule: str) -> None:
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    reverse = kernel("teaching", "reverse<int>")
    reverse((1,), (64,), (x, y), shared_mem=x.nbytes)
    np.testing.assert_array_equal(y, x[::-1])
    longer = np.append(x, x[:1]), np.append(y, y[:1])
    with pytest.raises(KernelError, match="element 64 of buf, which has 64"):
        reverse((1,), (65,), longer, shared_mem=x.nbytes)


def test_clock64_advances() -> None:
    elapsed = np.empty(1, np.int64)
    kernel("teaching", "time_of_a_barrier")((1,), (64,), (elapsed,))
    assert 0 < elapsed[0] < 10**11


# ---- crashes -------------------------------------------------------------------------

CRASHES = {
    1: "divides an integer by zero",
    2: "overflows its stack",
    3: "assertion failed: which != assertion",
    4: r"__trap\(\)",
    5: "writes address 0xf{16}, through an uninitialised pointer",
}


@together("which", CRASHES)
def test_after_a_crash_the_next_launch_works(schedule: str, which: int) -> None:
    x = np.zeros(256, np.int32)
    where = r"crash, thread \(5, 0, 0\), block \(\d, 0, 0\), crash\.cu:\d+: "
    with pytest.raises(KernelError, match=where + CRASHES[which]):
        kernel("crash", "crash")((3,), (64,), (x, np.int32(which)))
    assert not x.any()
    kernel("crash", "crash")((3,), (64,), (x, np.int32(0)))
    assert x[0] == 1


def test_the_machine_cannot_be_damaged(capsys: pytest.CaptureFixture[str]) -> None:
    x, damage = np.zeros(8, np.int64), kernel("crash", "damage")
    where = r"a handle at address .*, where no texture is"
    with pytest.raises(KernelError, match=where):
        damage((1,), (1,), (x, np.int32(0)))
    for which, result in ((1, 0), (2, 1), (3, 1)):
        damage((1,), (1,), (x, np.int32(which)))
        assert x[0] == result
    assert capsys.readouterr().out == "%nd %2$s 7 text fe -1\n"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Python's handler of Ctrl-C, which background jobs of a shell do not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@together("by_atomics", ["true", "false"])
def test_interrupt_ends_an_endless_kernel(by_atomics: str) -> None:
    wait_for = kernel("synchronisation", f"wait_for<{by_atomics}>")
    wait_for((2,), (32,), (np.ones(1, np.int32),))
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        wait_for((2,), (32,), (np.zeros(1, np.int32),))
    timer.join()
    wait_for((2,), (32,), (np.ones(1, np.int32),))


@together("by_atomics", ["true", "false"])
def test_endless_loop_is_ended_with_its_line(schedule: Any, by_atomics: str) -> None:
    wait_for = kernel("synchronisation", f"wait_for<{by_atomics}>")
    message = (
        r"block \([01], 0, 0\): endless loop: .* limit of the schedule"
        r"(\n  \d+ of 32 threads: (running at synchronisation.cu:42|not started), "
        r"first thread \(\d+, 0, 0\))+$"
    )
    with emulator.schedule(schedule, seed=3, limit=0.2):
        with pytest.raises(KernelError, match=message):
            wait_for((2,), (32,), (np.zeros(1, np.int32),))
        wait_for((2,), (32,), (np.ones(1, np.int32),))


# ---- invalid launches ----------------------------------------------------------------

ONE, ZERO = np.zeros(1), np.int32(0)

WRONG: list[tuple[tuple[Any, ...], str]] = [
    ((ONE, 0, ONE), r"must have 4 arguments \(x, from, y, to\), got 3"),
    ((ONE, 0, ONE, ZERO), "from of .* be int, got a Python int, .* as int64"),
    ((ONE, 0.5, ONE, ZERO), "from of .* be int, .* passed as float64"),
    ((ONE, np.float32(0), ONE, ZERO), "from .* be int, got a float32 value"),
    ((ONE, ONE, ONE, ZERO), "from of .* be int, got an array of float64"),
    ((1.0, ZERO, ONE, ZERO), "x .* pointer to double, got a Python float$"),
    ((np.zeros(1, "f4"), ZERO, ONE, ZERO),
     "x of copy_element<double> must be a pointer to double, .* of float32"),
    ((ONE, ZERO, np.zeros(1, np.int64), ZERO), "y .* array of int64"),
    ((ONE, ZERO, "y", ZERO), "y .* got 'y'"),
]  # fmt: skip
"""Arguments of `copy_element`, and the error."""


@together(("arguments", "message"), WRONG)
def test_wrong_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        run_one_block(*copy, *arguments, threads=1)


@together(
    ("grid", "block", "shared_mem", "message"),
    [
        (4, (32,), 0, "grid must be a tuple of 1 to 3 integers, got"),
        ((1,), (1025,), 0, r"block must .* at most .*1024, 1024, 64.* got \(1025,\)"),
        ((1,), (64, 32), 0, r"at most 1024 threads, got \(64, 32\), which has 2048"),
        ((1,), (1, 1, 65), 0, r"block must be at least 1 .* got \(1, 1, 65\)"),
        ((0,), (32,), 0, r"grid must be at least 1 .* got \(0,\)"),
        ((1, 1, 1, 1), (32,), 0, r"grid must have 1 to 3 dimensions, got \(1, 1, 1"),
        ((1,), (32,), -1, "shared_mem must be >= 0, got -1"),
    ],
)
def test_impossible_launches_are_refused(
    grid: Any, block: Any, shared_mem: int, message: str
) -> None:
    x = np.zeros(1024, np.int32)
    with pytest.raises((TypeError, ValueError), match=message):
        kernel("teaching", "reverse<int>")(grid, block, (x, x), shared_mem=shared_mem)


def test_largest_block_runs(schedule: str) -> None:
    x, reverse = np.arange(1024, dtype=np.int32), kernel("teaching", "reverse<int>")
    y = np.zeros_like(x)
    reverse.max_dynamic_shared_size_bytes = 99 * 1024
    reverse((1,), (1024,), (x, y), shared_mem=99 * 1024)
    np.testing.assert_array_equal(y, x[::-1])


@together(
    ("instance", "threads", "shared", "blocks"),
    [
        *(("reverse<int>", *row) for row in ((32, 0, 32), (1024, 0, 2))),
        *(("reverse<int>", 32, 1024 * k, n) for k, n in ((49, 4), (99, 2))),
        ("reverse<int>", 32, 99 * 1024 + 1, 0),
        # with 256 bytes of its own
        *(("fill_both", 32, 99 * 1024 - k, n) for k, n in ((256, 2), (255, 0))),
    ],
)
def test_resident_blocks(instance: str, threads: int, shared: int, blocks: int) -> None:
    assert kernel("teaching", instance).resident_blocks(threads, shared) == blocks


def test_shared_memory_of_another_gpu() -> None:
    x, most = np.arange(32, dtype=np.int32), 227 * 1024
    y, reverse = np.zeros_like(x), kernel("teaching", "reverse<int>")
    with pytest.raises(ValueError, match=f"at most {99 * 1024}, got {most}"):
        reverse.max_dynamic_shared_size_bytes = most
    with SHARED_MEMORY.to(most + 1024):
        assert reverse.resident_blocks(32, most) == 2
        assert reverse.resident_blocks(32, most + 1) == 0
        reverse.max_dynamic_shared_size_bytes = most
        reverse((1,), (32,), (x, y), shared_mem=most)
    np.testing.assert_array_equal(y, x[::-1])


# ---- definitions before a kernel -----------------------------------------------------


def fold(value: str, body: str) -> _emulator.Kernel:
    """The kernel of fold.cu with an operator on values of a type."""
    definitions = f"""struct Operator {{
    using Value = {value};
    static __device__ Value combine(Value a, Value b) {{ {body} }}
}};"""
    return _emulator.Kernel(KERNELS / "fold.cu", "fold<Operator>", KERNELS, definitions)


def test_arrays_of_another_type_are_refused() -> None:
    for value, dtype in (("float", np.complex64), ("short", np.float16)):
        x = np.zeros(2, dtype)
        with pytest.raises(TypeError, match="x of fold<Operator> must be a pointer to"):
            fold(value, "return a;")((1,), (1,), (x, np.int32(2), x))


def test_compile_error_in_definitions_names_the_line() -> None:
    with pytest.raises(emulator.CompileError, match=r"definitions\(3\):.*misspelt"):
        fold("int", "return misspelt;")


# ---- the schedule --------------------------------------------------------------------


def test_schedule_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_forward() -> bool:
        return bool((np.diff(arrivals(None)) > 0).all())

    monkeypatch.delenv("GPUSOLVE_EMULATE_SCHEDULE", raising=False)
    assert is_forward()
    for text in ("reverse", "random", "random:7"):
        monkeypatch.setenv("GPUSOLVE_EMULATE_SCHEDULE", text)
        assert not is_forward()
        with emulator.schedule("forward"):
            assert is_forward()
    for text in ("sideways", "random:x"):
        monkeypatch.setenv("GPUSOLVE_EMULATE_SCHEDULE", text)
        with pytest.raises(ValueError, match=f"SCHEDULE must be .* got {text!r}"):
            is_forward()


def test_wrong_schedules_are_refused() -> None:
    for wrong, message in (
        ({"order": "sideways"}, "order must be one of .* got 'sideways'"),
        ({"limit": 0}, "limit must be positive, in seconds, got 0"),
    ):
        options: Any = wrong
        with pytest.raises(ValueError, match=message):
            emulator.schedule(**options)


# ---- the compiler and its cache ------------------------------------------------------


def test_compile_error_has_the_kernel_and_the_log() -> None:
    source = "template <class T> __global__ void f(T* x) { x[threadIdxx.x] = 0; }"
    with pytest.raises(
        emulator.CompileError, match=r"(?s)f<int> in kernel\.cu .*threadIdxx"
    ):
        RawKernel(source, "f<int>")


def test_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUSOLVE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert _emulator.cache_directory() == tmp_path
    monkeypatch.delenv("GPUSOLVE_CACHE_DIR")
    assert _emulator.cache_directory() == tmp_path / "user" / "gpusolve"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert _emulator.cache_directory() == Path.home() / ".cache" / "gpusolve"


def test_kernel_is_compiled_once_for_each_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A damaged file of the cache is replaced."""
    monkeypatch.setenv("GPUSOLVE_CACHE_DIR", str(tmp_path / "cache"))
    source, header = tmp_path / "one.cu", tmp_path / "one.cuh"
    source.write_text('#include "one.cuh"\n__global__ void one(int* x) { *x = value; }')
    for value, count in ((1, 1), (1, 1), (2, 2)):
        header.write_text(f"constexpr int value = {value};")
        x = np.zeros(1, np.int32)
        RawKernel(source, "one")((1,), (1,), (x,))
        assert x[0] == value
        cached = list(tmp_path.glob("cache/ptx/*.json"))
        assert len(cached) == count
    for one in cached:
        one.write_text(one.read_text()[:100])
    RawKernel(source, "one")((1,), (1,), (x,))
    assert sum(one.stat().st_size > 100 for one in cached) == 1


@pytest.mark.slow
def test_processes_that_compile_the_same_kernel(tmp_path: Path) -> None:
    program = f"""
import pathlib, numpy as np
from gpusolve.emulator import RawKernel
x = np.arange(4, dtype=np.int32)
y, file = x.copy(), pathlib.Path({str(KERNELS / "teaching.cu")!r})
RawKernel(file, "reverse<int>")((1,), (4,), (x, y), shared_mem=16)
print(*y)
"""
    environment = {**os.environ, "GPUSOLVE_CACHE_DIR": str(tmp_path)}
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    processes = [
        subprocess.Popen(command, stdout=pipe, text=True, env=environment)
        for _ in range(4)
    ]
    assert [process.communicate()[0] for process in processes] == ["3 2 1 0\n"] * 4
    assert len(list(tmp_path.glob("ptx/*"))) == 1, "a complete file, and no other"


@pytest.mark.parametrize(
    ("library", "missing", "message"),
    [
        ("nvrtc", {"package_folders": lambda: ()}, r"pip install .*\[emulator\]"),
        ("module", {"FOLDER": "nowhere"}, r"runs on Linux, .* compiler"),
    ],
)
def test_a_missing_library_is_named(
    library: str, missing: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries that are installed can only be hidden by the search for them."""
    searching = getattr(_emulator, library)
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: None)
    for name, value in missing.items():
        monkeypatch.setattr(searching, name, value)
    searching.library.cache_clear()
    try:
        with pytest.raises(emulator.CompileError, match=message):
            kernel("crash", "crash")
        assert _emulator.why_missing()
    finally:
        searching.library.cache_clear()


def test_empty_is_poisoned() -> None:
    assert np.isnan(_emulator.empty((2, 3), np.float32)).all()
    assert np.isnan(_emulator.empty(3, np.float64)).all()
    assert (_emulator.empty(3, np.int64) == -1).all()
    assert _emulator.empty((0, 3), np.int8).shape == (0, 3)
    assert (_emulator.zeros(3, np.int64) == 0).all()
