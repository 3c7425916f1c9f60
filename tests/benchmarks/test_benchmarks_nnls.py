"""The benchmarks of NNLS, for its speed and its accuracy, at their smallest sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import charts
import memory
import nnls_peer_process
import numpy as np
import pytest
import stubborn_peers
from benchmark_runs import number, report, run, tables
from certificates import Certifier
from nnls_cases import CASES, Case, fibres
from nnls_peer_process import FEW, Answer, PeerProcess
from nnls_peers import Peer, solve_by_scipy
from records import Result, Run, batches

import gpusolve
from benchmarks import nnls
from gpusolve.studies.experiments import EXPERIMENTS, uniform_random

SMALL = ("--cpu", "--systems", "2", "--sizes", "12", "--budget", "0.05")


# ---- speed ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small run, with its data and its charts."""
    path = tmp_path_factory.mktemp("run") / "page.md"
    report("nnls.py", *SMALL, "--output", str(path))
    return path


@pytest.mark.slow
def test_every_batch_is_timed_and_certified(page: Path) -> None:
    results = Run.load(page.with_suffix(".json")).results
    limits = {"gpusolve": 1e-13, "gpusolve float32": 1e-4, "SciPy": 1e-13}
    expected = [(name, (12, 12), 2, peer) for name in EXPERIMENTS for peer in limits]
    named = [one for one in results if one.peer in limits]
    assert [(one.name, one.shape, one.systems, one.peer) for one in named] == expected
    for one in named:
        assert one.median > 0
        assert one.spread >= 0
        assert one.error < limits[one.peer]
        assert one.solved == one.systems
    assert all(one.repeats >= 5 for one in results)


@pytest.mark.slow
def test_the_table_has_the_results(page: Path) -> None:
    head, *lines = tables(page.read_text())[0]
    results = Run.load(page.with_suffix(".json")).results
    for cells, batch in zip(lines, batches(results), strict=True):
        named = dict(zip(head, cells, strict=True))
        ours, scipy = (
            next(one for one in batch if one.peer == peer)
            for peer in ("gpusolve", "SciPy")
        )
        assert named["shape"] == ours.label
        milliseconds = number(named["SciPy ms"].split()[0])
        assert milliseconds == pytest.approx(1000 * scipy.median, rel=0.006)
        ratio = number(named["SciPy ratio"])
        assert ratio == pytest.approx(scipy.median / ours.median, abs=0.06)


@pytest.mark.slow
def test_a_page_is_drawn_from_data(
    page: Path, tmp_path: Path, called: Callable[..., str]
) -> None:
    again = tmp_path / page.name
    called(nnls.main, "--data", str(page.with_suffix(".json")), "--output", str(again))
    files = sorted(page.parent.iterdir())
    assert len(files) == 5
    for file in (file for file in files if file.suffix != ".json"):
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


@pytest.mark.slow
def test_charts_show_the_spread(tmp_path: Path) -> None:
    """Charts of other times are other pictures; a chart without data is empty."""
    pictures = []
    for spread in (1e-5, 0.5):
        run = Run("python x.py", {}, [])
        for case in CASES:
            for systems in case.systems:
                times = 5, 1e-3 * systems, spread * systems, systems, 0.0, 2**20
                run.results.append(Result(*case[:2], systems, "gpusolve", *times))
        charts.draw(run, tmp_path / "page.md", charts.NNLS)
        names = sorted(path.name for path in tmp_path.glob("*.png"))
        assert names == ["page-memory.png", "page-shape.png", "page-systems.png"]
        pictures.append([(tmp_path / name).read_bytes() for name in names])
    memory, shape, systems = (
        before == after for before, after in zip(*pictures, strict=True)
    )
    assert memory
    assert not shape
    assert not systems


def test_the_page_in_the_repository_is_from_its_data() -> None:
    page = nnls.RESULTS / "nnls_cpu.md"
    lines = nnls.stored(page.with_suffix(".json"), charts.links(page, charts.NNLS))
    assert page.read_text() == "".join(f"{line}\n" for line in lines)


def test_cases_are_chosen_by_label() -> None:
    labels = [case.label for case in nnls.chosen("^30 x 10", None)]
    assert labels == ["30 x 10, one matrix", "30 x 10, own matrices"]


def test_times_are_those_of_all_systems() -> None:
    one = Result("one matrix", (9, 3), 8, "gpusolve", 5, 0.004, 0.0002, 8, 1e-16)
    part = one._replace(peer="SciPy", median=0.012, solved=4)
    single = one._replace(peer="gpusolve float32", solved=0, note="crashes")
    assert nnls.line([one, single, part], ["SciPy"]) == (
        "| 9 x 3, one matrix | 8 | 4.00 (5%) | crashes | 12.0* (2%) | 3.0 |"
    )


@pytest.mark.skipif(not memory.CLEAR.exists(), reason="Linux tells the peak")
def test_memory_of_a_call() -> None:
    """The peak counts, also if the memory is free again at the end."""
    used = memory.growth(lambda: np.ones(2**23).sum())
    assert abs(used - 2**26) < 2**22


@pytest.mark.slow
@pytest.mark.skipif(not memory.CLEAR.exists(), reason="Linux tells the peak")
def test_memory_of_a_batch() -> None:
    """At least x and the dual solution, and less than a copy of all matrices."""
    case = next(one for one in CASES if one.label == "30 x 10, own matrices")
    used = memory.peak_bytes(case, 100_000)
    assert 2 * 8 * 10 * 100_000 <= used < 8 * 300 * 100_000
    assert memory.peak_bytes(case, 10) == 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.label))
def test_every_case_makes_its_systems(case: Case) -> None:
    A, b = case.make(2)
    m, n = A.shape[-2:]
    assert b.shape == (2, m)
    assert A.shape[:-2] in ((), (2,))
    assert (m, n) == case.shape
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
