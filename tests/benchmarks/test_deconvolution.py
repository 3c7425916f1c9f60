"""Other ways to deconvolve, against dense algebra; streams of blocks of waveforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
from benchmark_runs import number, tables
from oracles import violation
from together import together

from benchmarks import deconvolution as study
from benchmarks import streaming
from benchmarks.deconvolution import WAYS, toeplitz_least_squares, wiener
from gpusolve.studies.experiments import convolution_matrix, pulse, waveforms

SIZE = 120
SEEN = list(waveforms(4, SIZE, seed=1, noise=study.NOISE))


Called = Callable[..., str]


def whole_convolution(sent: Any, size: int) -> Any:
    """The matrix of the whole convolution, which has more rows than columns."""
    return scipy.linalg.toeplitz(
        np.r_[sent, np.zeros(size - 1)], np.r_[sent[0], np.zeros(size - 1)]
    )


# ---- the ways ------------------------------------------------------------------------


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("width", [5, 15])
def test_toeplitz_least_squares_is_that_of_lapack(width: int, l2: float) -> None:
    """Up to the loss of Levinson's recursion: the condition number of the products."""
    sent, b = pulse(width), SEEN[0].b
    T = whole_convolution(sent, SIZE)
    tall = np.vstack([T, np.sqrt(l2) * np.eye(SIZE)])
    expected = np.linalg.lstsq(tall, np.pad(study.observed(sent, b), (0, SIZE)))[0]
    condition = np.linalg.cond(tall) ** 2
    limit = 10 * condition * np.finfo(float).eps * np.abs(expected).max()
    found = toeplitz_least_squares(sent, b, l2)
    np.testing.assert_allclose(found, expected, atol=limit)


def test_a_pulse_may_be_wider_than_the_waveform() -> None:
    sent, b = pulse(15), np.ones(4)
    T = whole_convolution(sent, 4)
    expected = np.linalg.lstsq(T, study.observed(sent, b))[0]
    np.testing.assert_allclose(toeplitz_least_squares(sent, b), expected, rtol=1e-8)


def test_wiener_filter_is_a_circular_ridge() -> None:
    """The filter minimises |C x - b|^2 + noise / signal |x|^2 on a circle."""
    sent, b = SEEN[0].pulse, SEEN[0].b
    seen = study.observed(sent, b)
    size = scipy.fft.next_fast_len(len(seen), real=True)
    C = scipy.linalg.circulant(np.pad(sent, (0, size - len(sent))))
    l2 = study.NOISE**2 * np.sum(sent**2) / np.mean(b**2)
    products = C.T @ np.pad(seen, (0, size - len(seen)))
    expected = np.linalg.solve(C.T @ C + l2 * np.eye(size), products)
    np.testing.assert_allclose(
        wiener(sent, b, study.NOISE), expected[:SIZE], atol=1e-10
    )


@together("name", WAYS)
def test_without_noise_a_narrow_pulse_is_inverted(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """All ways agree where there is nothing to choose between them."""
    monkeypatch.setattr(study, "NOISE", 1e-7)
    sent, wave = pulse(3), SEEN[0]
    A = convolution_matrix(sent, SIZE)
    seen = wave._replace(pulse=sent, A=A, b=A @ wave.arrivals)
    np.testing.assert_allclose(WAYS[name](seen), wave.arrivals, atol=1e-6)


@pytest.mark.paper(
    "Luo, 6",
    "More than 20 % of what linear ways find is negative, and their errors are at "
    "least 1.5 times the errors of NNLS",
)
@together("name", WAYS)
def test_linear_ways_go_negative_where_nnls_does_not(name: str) -> None:
    for wave in SEEN:
        found, best = (study.quality(wave, WAYS[way](wave)) for way in (name, "NNLS"))
        assert best.least >= 0
        if name != "NNLS":
            assert found.least < -0.05
            assert found.negative > 0.2
            assert found.error > 1.5 * best.error


def test_quality_of_the_truth() -> None:
    wave = SEEN[0]
    found = study.quality(wave, wave.arrivals)
    assert found[:3] == (0, 0, 0)
    assert found.misfit == pytest.approx(1, abs=0.2)


def test_each_way_is_drawn() -> None:
    axes = study.draw(SEEN[0]).axes
    drawn = [axis.lines[1].get_ydata() for axis in axes]
    for way, found in zip(WAYS.values(), drawn, strict=True):
        np.testing.assert_array_equal(found, way(SEEN[0]))


def test_ways_are_compared_in_a_table(called: Called) -> None:
    options = ("--systems", "2", "--sizes", "60", "--repeats", "1")
    (table,) = tables(called(study.main, *options))
    assert [cells[0] for cells in table[1:]] == list(WAYS)
    assert all(number(cells[-1]) > 0 for cells in table[1:])
    assert number(table[-1][1]) == 0


# ---- streams -------------------------------------------------------------------------


@pytest.fixture
def flown() -> tuple[Any, list[Any]]:
    A = convolution_matrix(pulse(streaming.WIDTH), SIZE)
    return A, list(streaming.flight(scans=4, beams=6, size=SIZE))


@pytest.mark.slow
@pytest.mark.parametrize("warm", [False, True])
def test_a_stream_solves_each_block(
    backend: Any, flown: tuple[Any, list[Any]], warm: bool
) -> None:
    """The last block is smaller."""
    A, blocks = flown[0], [flown[1][0][:3], flown[1][1][:3], flown[1][2][:2]]

    def solve(A: Any, *blocks: Any) -> tuple[Any, ...]:
        return tuple(result.x for result in streaming.stream(A, blocks, warm=warm))

    found = backend.call(solve, A, *blocks)
    for b, x in zip(blocks, found, strict=True):
        for k, expected in enumerate(b):
            assert violation(A, expected, x[k]) <= 8 * np.finfo(float).eps


@pytest.mark.paper(
    "Luo, 1, 8",
    "A block that comes again needs fewer solves, since it starts from the last "
    "solution",
)
def test_a_stream_starts_each_block_from_the_last_one(
    flown: tuple[Any, list[Any]],
) -> None:
    A, blocks = flown
    first, again = streaming.stream(A, [blocks[0], blocks[0]])
    cold = list(streaming.stream(A, [blocks[0], blocks[0]], warm=False))
    assert (cold[1].nit == first.nit).all()
    assert (again.nit < first.nit).all()
    np.testing.assert_allclose(again.x, first.x, atol=1e-10)


@pytest.mark.paper("Luo, 1, 8", "Blocks are read as they are solved")
def test_a_stream_reads_no_block_before_it_is_asked() -> None:
    read = []

    def blocks() -> Any:
        for k in range(3):
            read.append(k)
            yield np.ones((1, 4))

    results = streaming.stream(np.eye(4), blocks())
    next(results)
    assert read == [0]


def test_options_of_a_stream(flown: tuple[Any, list[Any]]) -> None:
    A, blocks = flown
    l1 = streaming.noise_penalty()
    plain, sparse = (list(streaming.stream(A, blocks, l1=k)) for k in (0.0, l1))
    counts = [sum(int((r.x > 0).sum()) for r in found) for found in (plain, sparse)]
    assert counts[1] < counts[0]


def test_scans_of_a_flight_are_similar() -> None:
    first, second, *_, last = streaming.flight(8, 20, SIZE, changed=0.02)
    (other,) = streaming.flight(1, 20, SIZE, seed=1)
    apart = [np.linalg.norm(first - scan) for scan in (second, last, other)]
    assert apart == sorted(apart)


def test_rates_are_measured(called: Called) -> None:
    options = ("--cpu", "--sizes", "2", "3", "40", "--repeats", "1")
    (table,) = tables(called(streaming.main, *options))
    assert [cells[1] for cells in table[1:]] == ["cold", "warm"] * 2
    assert all(number(cells[2]) > 0 for cells in table[1:])
