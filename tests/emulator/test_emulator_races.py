"""The emulator's race detector, on kernels whose threads access the same memory.

Its reports must not depend on the order in which threads run.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator

from gpusolve import emulator
from gpusolve.emulator import KernelError, RawKernel

KERNELS = Path(__file__).parents[1] / "faulty_kernels"

pytestmark = needs_emulator


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    """Race detection."""
    with emulator.races():
        yield


@pytest.fixture(params=["forward", "reverse", "random"])
def order(request: pytest.FixtureRequest) -> Iterator[str]:
    with emulator.schedule(request.param, seed=3):
        yield request.param


def run(
    file: str, instance: str, *args: Any, blocks: int = 2, threads: int = 32
) -> None:
    kernel = RawKernel(KERNELS / f"{file}.cu", instance)
    kernel((blocks,), (threads,), args)


def integers(*shape: int) -> Any:
    return np.zeros(shape, np.int32)


# ---- a value that one block sends to another -----------------------------------------


def received(instance: str) -> int:
    """The value that block 1 receives from block 0."""
    value, flag, result = integers(1), integers(1), integers(1)
    run("message", instance, value, flag, result)
    return int(result[0])


def test_value_and_status_in_one_word(order: str) -> None:
    word, result = np.zeros(1, np.uint64), integers(1)
    run("message", "packed", word, result)
    assert result[0] == 42


def test_word_written_in_halves(order: str) -> None:
    word, result = np.zeros(1, np.uint64), integers(1)
    message = (
        r"block \(1, 0, 0\), message.cu:\d+: data race: reads element 0 of word .* as "
        r"one value, but thread \(0, 0, 0\) of block \(0, 0, 0\) at message.cu:2[23] "
        "wrote only a part of it"
    )
    with pytest.raises(KernelError, match=message):
        run("message", "torn", word, result)


@pytest.mark.parametrize("by_atomics", ["true", "false"])
def test_value_and_flag(order: str, by_atomics: str) -> None:
    assert received(f"flagged<true, true, {by_atomics}>") == 42
    for fences in ("true, false", "false, true", "false, false"):
        with pytest.raises(KernelError, match=r"element 0 of value .* nothing orders"):
            received(f"flagged<{fences}, {by_atomics}>")


def test_report_names_both_accesses() -> None:
    message = (
        r"thread \(1, 0, 0\), block \(1, 0, 0\), message.cu:53: data race: reads "
        r"element 0 of value \(int32, shape \(1,\)\), which thread \(1, 0, 0\) of "
        r"block \(0, 0, 0\) at message.cu:36 wrote, and nothing orders the two "
        r"accesses; use atomics, or a flag with a __threadfence\(\) on both sides"
    )
    with pytest.raises(KernelError, match=message):
        received("flagged<false, true, true>")


def test_threadfence_block_between_blocks(order: str) -> None:
    message = r"element 0 of value .* nothing between blocks.*__threadfence\(\)"
    with pytest.raises(KernelError, match=message):
        received("fenced_for_the_block")


def test_missing_fence_after_a_flag_is_named(order: str) -> None:
    message = "has read a flag .* no fence since; put a __threadfence"
    memory = integers(1), integers(1), integers(1)
    assert_race(message, run, "message", "without_acquire", *memory)


def test_plain_write_of_a_flag(order: str) -> None:
    with pytest.raises(KernelError, match=r"element 0 of flag .* nothing orders"):
        received("plain_flag")


def test_value_through_a_chain_of_blocks(order: str) -> None:
    value, flags, result = integers(1), integers(9), integers(1)
    run("chain", "chain<false>", value, flags, result, blocks=9)
    assert result[0] == 42
    with pytest.raises(KernelError, match=r"element 0 of value .* nothing orders"):
        run("chain", "chain<true>", value, integers(9), result, blocks=9)


def test_steps_of_a_grid(order: str) -> None:
    """A block that waits may read a later count, which must not order accesses."""

    def pass_on(waits: str) -> Any:
        x = integers(16)
        arguments = x, np.int32(3), integers(1)
        run("grid_steps", f"pass_on<{waits}>", *arguments, blocks=4, threads=4)
        return x

    np.testing.assert_array_equal(pass_on("true, true"), [14] * 16)
    for waits in ("false, true", "true, false"):
        assert_race(r"element \d+ of x .* nothing orders", pass_on, waits)


# ---- one element for many blocks -----------------------------------------------------


def test_remedy_for_an_update_is_an_atomic(order: str) -> None:
    message = r"element 0 of x .*; use an atomic operation, such as atomicAdd\(\)$"
    assert_race(message, run, "shared_element", "increment", integers(1))
    assert_race(message, run, "shared_element", "increment", integers(1), blocks=1)


def test_remedy_for_reads_of_neighbours_is_a_barrier(order: str) -> None:
    message = r"; put a __syncthreads\(\) between them$"
    assert_race(
        message, run, "shared_element", "add_neighbours", integers(33), blocks=1
    )


def test_stores_of_the_same_value_are_named(order: str) -> None:
    message = "and nothing orders .*; both store the same value, which is harmless on"
    assert_race(message, run, "shared_element", "write_the_same", integers(1))


def test_two_blocks_write_one_element(order: str) -> None:
    message = (
        "writes element 0 of x .* wrote, and nothing .*; let a single thread write it, "
        "or use an atomic operation$"
    )
    assert_race(message, run, "shared_element", "write_all", integers(1))


def test_a_plain_read_before_swaps_does_not_race(order: str) -> None:
    x = integers(1)
    run("shared_element", "add_by_swaps", x)
    assert x[0] == 64


def test_plain_read_and_plain_write(order: str) -> None:
    message = "(reads|writes) element 0 of x .* (read|wrote), and nothing orders"
    with pytest.raises(KernelError, match=message):
        run("shared_element", "read_and_write", integers(1), integers(2))


@pytest.mark.parametrize("name", ["char", "short", "double"])
def test_neighbouring_elements_do_not_race(order: str, name: str) -> None:
    dtype = {"char": np.int8, "short": np.int16, "double": np.float64}[name]
    x = np.empty(6 * 5, dtype)
    run("shared_element", f"write_own<{name}>", x, blocks=6, threads=5)
    np.testing.assert_array_equal(x, np.arange(30))


def last_block_sum(faulty: str) -> int:
    x, total = np.arange(40, dtype=np.int32), integers(1)
    done = np.zeros(1, np.uint32)
    run("last_block", f"sum<{faulty}>", x, integers(40), done, total, blocks=40)
    return int(total[0])


def test_last_block_sums_results_of_all_blocks(order: str) -> None:
    assert last_block_sum("false") == 40 * 39
    with pytest.raises(KernelError, match=r"reads element \d+ of partial .* wrote"):
        last_block_sum("true")


@pytest.mark.parametrize("name", ["copy_record", "move_record", "clear_record"])
def test_copies_by_functions_of_c_race(order: str, name: str) -> None:
    x, y = np.zeros((2, 9), np.float32), np.ones((32, 9), np.float32)
    assert_race(
        r"copies.cu:\d+: data race: writes element 0 of x", run, "copies", name, x, y
    )


def test_copies_of_own_records_do_not_race(order: str) -> None:
    x, y = np.zeros((64, 9), np.float32), np.ones((64, 9), np.float32)
    run("copies", "copy_own", x, y)
    np.testing.assert_array_equal(x, y)


# ---- memory that is not passed as an array -------------------------------------------


def test_device_variable(order: str) -> None:
    message = r"element 3 \(4 bytes\) of counts in global memory, .*; use an atomic"
    assert_race(message, run, "device_variables", "increment_variable", integers(32))
    tickets = integers(32)
    run("device_variables", "increment_by_atomics", tickets, blocks=1)
    np.testing.assert_array_equal(np.sort(tickets) - tickets.min(), np.arange(32))


def test_pointer_in_a_structure(order: str) -> None:
    """The emulator does not know the array of a pointer in bytes of NumPy.

    The pointer is far from the ends of a large array, so it is near no other array.
    """
    values = np.empty(1 << 26, np.uint8)
    middle = values.ctypes.data + values.size // 2
    counters = np.array((middle,), [("values", np.uint64)])[()]
    message = r"address 0x[0-9a-f]+, which is in no array of the launch"
    with pytest.raises(KernelError, match=message):
        run("device_variables", "increment_through_structure", counters)


# ---- the threads of one block --------------------------------------------------------


def exchange(between: str, distance: int, name: str = "int", threads: int = 128) -> Any:
    """Element t ^ distance for every t, synchronised between write and read."""
    dtype = {"char": np.int8, "int": np.int32, "double": np.float64}[name]
    x, y = np.arange(threads).astype(dtype), np.empty(threads, dtype)
    instance = f"exchange<{between}, {name}>"
    run("inside_block", instance, x, np.int32(distance), y, blocks=1, threads=threads)
    return y


def assert_race(message: str, function: Any, *args: Any, **options: Any) -> None:
    with pytest.raises(KernelError, match=message):
        function(*args, **options)


PART = r"of part in shared memory, which thread .* (read|wrote), and nothing orders"


@pytest.mark.parametrize("name", ["char", "int", "double"])
def test_threads_exchange_values(order: str, name: str) -> None:
    for distance in (1, 16, 32):
        expected = np.arange(128) ^ distance
        for between in ("block_barrier", "block_vote"):
            np.testing.assert_array_equal(exchange(between, distance, name), expected)
        assert_race(PART, exchange, "nothing", distance, name)
    np.testing.assert_array_equal(exchange("nothing", 0, name), np.arange(128))


def test_lanes_exchange_values(order: str) -> None:
    np.testing.assert_array_equal(exchange("warp_barrier", 16), np.arange(128) ^ 16)
    np.testing.assert_array_equal(exchange("half_barriers", 8), np.arange(128) ^ 8)
    assert_race(PART, exchange, "warp_barrier", 32)
    assert_race(PART, exchange, "half_barriers", 16)


def test_shuffles_do_not_order_memory_accesses(order: str) -> None:
    assert_race(PART, exchange, "warp_shuffle", 1)


def exchange_in(kernel: str, between: str, distance: int) -> Any:
    x = np.arange(64, dtype=np.int32)
    compiled = RawKernel(KERNELS / "inside_block.cu", f"{kernel}<{between}, int>")
    compiled((1,), (64,), (x, np.int32(distance)), shared_mem=64 * 4)
    return x


def test_write_after_a_read(order: str) -> None:
    found = exchange_in("exchange_in_place", "block_barrier", 32)
    np.testing.assert_array_equal(found, np.arange(64) ^ 32)
    message = r"element \d+ of x .*, which thread \(\d+, 0, 0\) at inside_block.cu:\d+"
    assert_race(message, exchange_in, "exchange_in_place", "nothing", 32)
    assert_race(message, exchange_in, "exchange_in_place", "warp_barrier", 32)


def test_one_array_as_input_and_output(order: str) -> None:
    x = np.arange(64, dtype=np.int32)
    one_block = {"blocks": 1, "threads": 64}
    step = np.int32(32)
    run("inside_block", "exchange_arrays", x, step, integers(64), **one_block)
    assert_race(
        "of x ", run, "inside_block", "exchange_arrays", x, step, x, **one_block
    )


def test_volatile_code_that_relies_on_lockstep_is_named(order: str) -> None:
    message = r"of part .* in lockstep before Volta, .*; put a __syncwarp\(\) between"
    run("inside_block", "sum_of_a_warp<true>", integers(32), blocks=1)
    x = integers(32)
    assert_race(message, run, "inside_block", "sum_of_a_warp<false>", x, blocks=1)


def test_reuse_of_shared_memory(order: str) -> None:
    found = exchange_in("exchange_twice", "block_barrier", 32)
    np.testing.assert_array_equal(found, np.arange(64))
    message = r"element \d+ \(4 bytes\) of shared_memory"
    assert_race(message, exchange_in, "exchange_twice", "nothing", 32)


def test_plain_read_after_atomics(order: str) -> None:
    total = integers(1)
    run("inside_block", "count<block_barrier>", total, blocks=1, threads=64)
    assert total[0] == 64
    for between in ("nothing", "warp_barrier"):
        options = {"blocks": 1, "threads": 64}
        assert_race(
            "of counted", run, "inside_block", f"count<{between}>", total, **options
        )


def test_flag_inside_a_block(order: str) -> None:
    options = {"blocks": 1, "threads": 64}
    result = integers(1)
    run("inside_block", "flag<true, true>", result, **options)
    assert result[0] == 42
    for fences in ("true, false", "false, true", "false, false"):
        assert_race(
            "of value", run, "inside_block", f"flag<{fences}>", result, **options
        )


def test_report_names_threads_lines_and_the_shared_array() -> None:
    message = (
        r"exchange<nothing, int>, thread \(32, 0, 0\), block \(0, 0, 0\), "
        r"inside_block.cu:20: data race: writes element 32 \(4 bytes\) of part in "
        r"shared memory, which thread \(0, 0, 0\) at inside_block.cu:22 read, and "
        r"nothing orders the two accesses; put a __syncthreads\(\) between them"
    )
    assert_race(message, exchange, "nothing", 32)


# ---- turning it on and off -----------------------------------------------------------


def test_environment_turns_race_detection_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch() -> None:
        run("shared_element", "write_all", integers(1))

    # In a new context no `with` statement is active.
    monkeypatch.delenv("GPUSOLVE_EMULATE_RACES", raising=False)
    contextvars.Context().run(launch)
    monkeypatch.setenv("GPUSOLVE_EMULATE_RACES", "1")
    with pytest.raises(KernelError, match="nothing orders"):
        contextvars.Context().run(launch)
