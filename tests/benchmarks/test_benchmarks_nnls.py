"""The benchmarks of NNLS, for its speed and its accuracy, at their smallest sizes."""

from __future__ import annotations

from pathlib import Path

import nnls_calls
import nnls_peer_process
import numpy as np
import pytest
import stubborn_peers
from benchmark_runs import number, report, run, tables
from certificates import Certifier
from nnls_cases import CASES, Case, fibres
from nnls_peer_process import FEW, Answer, PeerProcess
from nnls_peers import Peer, solve_by_scipy

import gpusolve
from benchmarks import nnls
from gpusolve.studies.experiments import EXPERIMENTS, uniform_random

SMALL = ("--systems", "2", "3", "--sizes", "12", "--repeats", "1")


def split(cell: str) -> tuple[float, float]:
    """The seconds and the certificate in a cell of the table."""
    seconds, _, kkt = cell.partition(" (")
    return number(seconds), float(kkt.rstrip(")"))


# ---- speed ---------------------------------------------------------------------------


@pytest.mark.slow
def test_every_batch_is_timed_and_certified() -> None:
    head, *lines = tables(report("nnls.py", "--cpu", *SMALL))[0]
    batches = [(f"{name} 12", systems) for name in EXPERIMENTS for systems in "23"]
    assert [(cells[0], cells[1]) for cells in lines] == batches
    for cells in lines:
        named = dict(zip(head, cells, strict=True))
        limits = {"gpusolve float64": 1e-13, "gpusolve float32": 1e-4, "SciPy": 1e-13}
        for name, limit in limits.items():
            seconds, kkt = split(named[name])
            assert seconds > 0
            assert kkt < limit
        assert number(named["/ SciPy"]) > 0


@pytest.mark.slow
def test_other_libraries_can_be_left_out() -> None:
    head, *lines = tables(report("nnls.py", "--cpu", "--no-peers", *SMALL))[0]
    assert head[-2:] == ["/ SciPy", "/ joblib"]
    assert all(cells[-2:] == ["", ""] for cells in lines)


@pytest.mark.slow
def test_cases_are_chosen_by_name() -> None:
    options = ("--cases", "30 x 10", "--systems", "2", "--no-peers", "--repeats", "1")
    lines = tables(report("nnls.py", "--cpu", *options))[0][1:]
    assert [cells[0] for cells in lines] == [
        *("30 x 10, own matrices", "30 x 10, one matrix")
    ]


def test_times_are_those_of_all_systems() -> None:
    A, b = uniform_random(8, size=20)
    x = gpusolve.nnls(A, b).x
    certifier = Certifier(A, b, x)
    part = Answer(0.5, x[:4], "crashes")
    text = nnls.cell(part, certifier, 8)
    assert text.startswith("4.00 (")
    assert text.endswith(", 4 solved, crashes)")
    assert nnls.cell(Answer(0.5, x[:0], "crashes"), certifier, 8) == "crashes"
    assert nnls.ratio(Answer(2.0, x), part) == "4.00"
    assert nnls.ratio(Answer(2.0, x), part, workers=3) == "12.00"


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_every_case_makes_its_systems(case: Case) -> None:
    A, b = case.make(2)
    m, n = A.shape[-2:]
    assert b.shape == (2, m)
    assert A.shape[:-2] in ((), (2,))
    size = f"{m} x {n}" if " x " in case.name else str(m)
    assert size in case.name
    assert ("one matrix" in case.name or "gaussian" in case.name) == (A.ndim == 2)


def test_about_thirteen_fibre_directions_are_positive() -> None:
    x = gpusolve.nnls(*fibres(100)).x
    assert 11 < (x > 0).sum(axis=-1).mean() < 15


# ---- the certificate of other answers ------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_correct_answers_are_certified(shared: bool) -> None:
    A, b = uniform_random(4, size=20)
    A = A[0] if shared else A
    certifier = Certifier(A, b, gpusolve.nnls(A, b).x)
    x = solve_by_scipy(A, b)
    assert certifier.worst(x) < 1e-14
    assert certifier.worst(x[:3]) < 1e-14
    interior = np.maximum(x, 1e-14)
    assert certifier.worst(interior) < 1e-12


def test_a_wrong_answer_has_a_large_certificate() -> None:
    A, b = uniform_random(4, size=20)
    x = gpusolve.nnls(A, b).x
    wrong = x.copy()
    wrong[2] *= 1.001
    assert Certifier(A, b, x).worst(wrong) > 1e-4


def test_a_wrong_answer_does_not_certify_itself() -> None:
    A, b = uniform_random(4, size=20)
    wrong = np.zeros((4, 20))
    assert Certifier(A, b, wrong).worst(wrong) > 1e-2


# ---- other libraries, each in a process ----------------------------------------------

SYSTEMS = 100
A_AND_B = np.ones((3, 2)), np.ones((SYSTEMS, 3))


def asked(name: str, times: int = 1) -> list[Answer]:
    """What a stubborn library answers."""
    peer = Peer(name, "numpy", getattr(stubborn_peers, name))
    with PeerProcess(peer, budget=0.1) as process:
        return [process.solve(*A_AND_B) for _ in range(times)]


def test_a_slow_library_solves_a_part() -> None:
    (answer,) = asked("slow")
    assert FEW <= len(answer.x) < SYSTEMS
    assert answer.seconds >= stubborn_peers.SECONDS
    assert answer.note == ""


def test_a_process_gets_no_more_than_it_can_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    A, b = np.ones((SYSTEMS, 3, 2)), np.ones((SYSTEMS, 3))
    monkeypatch.setattr(nnls_peer_process, "SENT_BYTES", 7 * A[0].nbytes)
    with PeerProcess(Peer("slow", "numpy", stubborn_peers.slow), budget=10) as process:
        assert len(process.solve(A, b).x) == 7


@pytest.mark.slow
def test_a_library_that_hangs_is_stopped_and_starts_again() -> None:
    for answer in asked("hangs", times=2):
        assert len(answer.x) == FEW
        assert answer.note == "stopped after 2 s"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("raises", "fails: ValueError"),
        ("dies", "crashes"),
        ("missing", "fails: ModuleNotFoundError"),
    ],
)
def test_a_library_that_fails_costs_no_more_than_its_answer(
    name: str, note: str
) -> None:
    for answer in asked(name, times=2):
        assert len(answer.x) == 0
        assert answer.note == note


# ---- accuracy ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_accuracy_counts_every_system(tmp_path: Path, jobs: str) -> None:
    failures = tmp_path / "failures.npz"
    options = ("--cpu", "--systems", "400", "--jobs", jobs, "--save", str(failures))
    (table,) = tables(report("nnls_accuracy.py", *options))
    assert [cells[:2] for cells in table[1:]] == [
        *(["full rank", "200"], ["rank 1", "200"], ["all", "400"])
    ]
    failed = sum(int(cells[4]) for cells in table[1:-1])
    assert len(np.load(failures)["excess"]) == failed


@pytest.mark.slow
def test_accuracy_with_bounds() -> None:
    options = ("--cpu", "--bounds", "--systems", "200", "--jobs", "1")
    (table,) = tables(report("nnls_accuracy.py", *options))
    name, systems, excess, _, failed, silent = table[1][:6]
    assert (name, systems, failed, silent) == ("full rank", "200", "0", "0")
    assert abs(float(excess)) < 1e-9


@pytest.mark.slow
def test_accuracy_of_gram_needs_the_cpu() -> None:
    done = run("nnls_accuracy.py", "--emulate", "--method", "gram")
    assert done.returncode == 1
    assert "--method gram runs on the CPU only" in done.stderr


@pytest.mark.slow
def test_accuracy_of_quadratic_programs() -> None:
    options = ("--cpu", "--qp", "--systems", "200", "--jobs", "1")
    (table,) = tables(report("nnls_accuracy.py", *options))
    assert table[1][:2] == ["normal", "200"]
    assert table[1][4:6] == ["0", "0"]


# ---- single calls --------------------------------------------------------------------


@pytest.mark.slow
def test_single_calls_are_timed_next_to_scipy() -> None:
    single, first, without = tables(report("nnls_calls.py", "--repeats", "1"))
    assert [cells[0] for cells in single[1:]] == ["30 x 10", "64 x 16", "200 x 50"]
    assert [len(first), len(without)] == [3, 4]
    for cells in single[1:] + first[1:] + without[1:]:
        ours, scipy, ratio = map(number, cells[1:])
        assert ratio == pytest.approx(ours / scipy, rel=0.02, abs=0.01)


def test_a_process_computes_what_it_is_asked_for() -> None:
    time = nnls_calls.time_in_process("first_call", "gpusolve", "one system of 30 x 10")
    assert time > 0
