"""What the benchmarks share: timing, the machine, Markdown tables."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import cupy_stand_in
import numpy as np
import pytest
from benchmark_runs import number
from together import together

from benchmarks import harness

CPU = harness.Machine("cpu", np, harness.wall_clock, 1)


# ---- timing ----


def test_median_leaves_out_the_first_call() -> None:
    seconds = iter([9.0, 1.0, 3.0, 2.0])
    results = iter("abcd")

    def stopwatch(call: harness.Call) -> harness.Timed:
        return harness.Timed(next(seconds), call())

    taken = harness.timing(stopwatch, lambda: next(results), 3)
    assert taken == harness.Timing(first=9.0, seconds=(1.0, 3.0, 2.0), result="d")
    assert taken.median == 2
    assert taken.spread == 1


def test_wall_clock_returns_the_result() -> None:
    seconds, result = harness.wall_clock(lambda: 7)
    assert result == 7
    assert seconds >= 0


def test_cuda_events_enclose_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The L2 cache is flushed before the first event."""
    log: list[str] = []

    def event() -> SimpleNamespace:
        return SimpleNamespace(
            record=lambda: log.append("record"),
            synchronize=lambda: log.append("synchronize"),
        )

    def add(x: object, y: object, out: object) -> None:
        log.append("flush")

    cuda = SimpleNamespace(Event=event, get_elapsed_time=lambda begin, end: 5.0)
    cupy = SimpleNamespace(cuda=cuda, zeros=np.zeros, add=add)
    monkeypatch.setattr(harness, "FLUSH_BYTES", 8)
    stopwatch = harness.cuda_events(cupy)
    assert stopwatch(lambda: log.append("call")) == (0.005, None)
    assert log == ["flush", "record", "call", "record", "synchronize"]


def test_copy_rate_counts_bytes_read_and_written() -> None:
    machine = CPU._replace(stopwatch=lambda call: harness.Timed(0.5, call()))
    assert machine.copy_rate(np.zeros(100, np.float32)) == 2 * 400 / 0.5


# ---- peers ----


def test_a_failing_peer_costs_its_own_cell_only() -> None:
    def fail() -> None:
        raise KeyError

    assert CPU.peer_cell(fail) == "fails: KeyError"
    assert CPU.peer_cell(None) == ""
    assert number(CPU.peer_cell(lambda: sum(range(100)))) > 0


def test_peers_can_be_left_out() -> None:
    assert CPU._replace(peers=False).peer_cell(lambda: 1) == ""


# ---- the machine ----


@pytest.mark.parametrize(
    ("count", "error", "found"),
    [(1, None, True), (0, "cudaErrorNoDevice", False)],
)
def test_cupy_is_used_only_with_a_device(
    count: int, error: str | None, found: bool
) -> None:
    with cupy_stand_in.installed(count, error=error) as cupy:
        assert harness.cupy_with_device() is (cupy if found else None)


def test_cupy_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert harness.cupy_with_device() is None


def test_options_choose_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "0")
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert harness.choose(emulate=True).name == "emulator"
    assert harness.choose(cpu=True).name == harness.choose().name == "cpu"


def test_free_memory_is_that_of_the_gpu() -> None:
    runtime = SimpleNamespace(memGetInfo=lambda: (25_700, 10**9))
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    assert CPU._replace(name="cuda", xp=cupy).free_bytes == 25_700
    assert CPU.free_bytes == float("inf")


def test_facts_of_a_machine_without_a_gpu() -> None:
    facts = harness.facts(None, "no-such-package")
    assert facts["numpy"] == np.__version__
    assert facts["no-such-package"] == "not installed"
    assert "gpu" not in facts


def test_a_command_that_does_not_exist_is_unknown() -> None:
    assert harness.first_line("no-such-command") == "unknown"


@together(("load", "says"), [("0.9", False), ("5.0", True), ("unknown", False)])
def test_a_busy_machine_is_told(load: str, says: bool) -> None:
    lines = list(harness.busy({"load": load}))
    assert any("Other programs used the CPU" in line for line in lines) == says


# ---- Markdown ----


@together(
    ("value", "text"),
    [(0.00012345, "0.000123"), (1.5, "1.50"), (99.96, "100"), (123456, "123,000")],
)
def test_three_digits(value: float, text: str) -> None:
    assert harness.three_digits(value) == text


def test_powers_of_ten() -> None:
    assert [harness.power(n) for n in (1, 1000, 1200)] == ["10^0", "10^3", "1,200"]


def test_command_line_leaves_out_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["/somewhere/nnls.py", "--cpu", "--output", "file.md", "--cases", "3 x 3"]
    monkeypatch.setattr(sys, "argv", given)
    assert harness.command_line() == "python benchmarks/nnls.py --cpu --cases '3 x 3'"
