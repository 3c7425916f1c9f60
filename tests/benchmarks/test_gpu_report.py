"""Tests ``benchmarks/gpu_report.py`` on the stand-in for CuPy."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cupy_stand_in
import gpu_report
import gpu_smoke
import kernel_calls
import pytest

import gpusolve
from gpusolve import sparse

PYTHON, *SMOKE = gpu_report.SMOKE
ON_STAND_IN = [PYTHON, "-m", "cupy_stand_in", *SMOKE]

FAULTY_CHECKS = """\
import os, sys, time
import numpy as np
import cupy_stand_in, gpu_smoke, kernel_calls
from gpu_smoke import Check

def gives_a_wrong_result(settings):
    ones = kernel_calls.copy_to_host(settings.xp.ones(3))
    kernel_calls.compare(ones, np.arange(1.0, 4.0), 0)

def passes(settings):
    return {"first": 0.002, "second": 0.001}

def lose_the_device(settings):
    settings.xp.ones = None
    raise RuntimeError("an illegal memory access")

gpu_smoke.checks = lambda: [
    Check("passes", passes),
    Check("gives a wrong result", gives_a_wrong_result),
    Check("loses the device", lose_the_device),
    Check("ends the process", lambda settings: os._exit(7)),
    Check("hangs", lambda settings: time.sleep(1000)),
    Check("passes at the end", passes, "stress"),
]
with cupy_stand_in.installed(1):
    sys.exit(gpu_smoke.main())
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks' processes have the import path of the tests."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


PLAN = gpu_report.Plan(
    smoke=ON_STAND_IN,
    rehearsed=[],
    sanitizer=lambda: None,
    least_seconds=dict.fromkeys(gpu_report.PARTS, 0),
)


def report(folder: Path, plan: gpu_report.Plan, *options: str) -> tuple[int, Any, str]:
    """The exit status, the JSON file's contents and the text of the page."""
    arguments = ["--out", str(folder), "--small", "--minutes", "5", *options]
    status = gpu_report.main(arguments, plan)
    contents = json.loads((folder / "report.json").read_text())
    return status, contents, (folder / "report.md").read_text()


def statuses(contents: Any) -> dict[str, str]:
    return {check["name"]: check["status"] for check in contents["checks"]}


NO_SANITIZER = dict.fromkeys(("memcheck", "racecheck"), "skipped")


@pytest.mark.slow
def test_a_report_of_some_checks(tmp_path: Path) -> None:
    """One check of each kind; another test makes the call of each check."""
    names = "scan, warp", "nnls, by warps", "two threads", "grid barrier"
    only = f"^({'|'.join(names)})$"
    status, contents, page = report(tmp_path, PLAN, "--only", only)
    assert statuses(contents) == {
        **dict.fromkeys(names, "passed"),
        "a second process finds the kernels": "passed",
        **NO_SANITIZER,
    }, contents["checks"]
    assert status == 0
    assert contents["finished"]
    assert all(f"| {name} |" in page for name in names)
    timed = {check["name"]: check for check in contents["checks"]}
    assert timed["scan, warp"]["second"] > 0
    assert timed["grid barrier"]["launches"] == gpu_smoke.FEW_LAUNCHES


@pytest.mark.slow
def test_a_failure_ends_one_check_only(tmp_path: Path) -> None:
    script = tmp_path / "faulty_checks.py"
    script.write_text(FAULTY_CHECKS)
    plan = PLAN._replace(
        smoke=[sys.executable, str(script)],
        check_seconds=5,
        rehearsed=["nnls.py --help", "no_such_file.py"],
    )
    status, contents, page = report(tmp_path / "out", plan)
    assert status == 1
    assert contents["finished"]
    assert statuses(contents) == {
        "passes": "passed",
        "gives a wrong result": "failed",
        "loses the device": "failed",
        "ends the process": "failed",
        "hangs": "failed",
        "a second process finds the kernels": "not run",
        **NO_SANITIZER,
        "passes at the end": "passed",
        "nnls.py --help": "passed",
        "no_such_file.py": "failed",
    }
    reasons = {check["name"]: check.get("reason", "") for check in contents["checks"]}
    assert "Mismatched elements: 2 / 3" in reasons["gives a wrong result"]
    assert "illegal memory access" in reasons["loses the device"]
    assert "the process ended: 7" in reasons["ends the process"]
    assert "Timeout (0:00:05)" in reasons["hangs"]
    assert "Mismatched elements: 2 / 3" in page
    assert "| smoke | passes | passed | 2.000 | 1.000 |" in page
    assert contents["facts"]["gpu"] == "stand-in 0"
    assert "usage: nnls.py" in page


def test_gpusolve_runs_with_the_fallback_packages() -> None:
    folder = Path(gpu_report.__file__).parent / "fallbacks"
    paths = [str(folder / name) for name in gpu_report.FALLBACKS]
    code = f"""
import sys; sys.path[:0] = {paths}
import numpy as np, gpusolve, threadpoolctl, tqdm
assert threadpoolctl.__file__.startswith({str(folder)!r}), threadpoolctl.__file__
assert tqdm.__file__.startswith({str(folder)!r}), tqdm.__file__
X = np.random.default_rng(0).random((50, 3))
assert gpusolve.nnls(X, X[:, 0]).status == 0
gpusolve.gam.BoostedGAM(n_basis=6, max_iter=3).fit(X, X[:, 1])
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_benchmarks_accept_their_arguments() -> None:
    for line in (*gpu_report.BENCHMARKS, *gpu_report.REHEARSED):
        file, *arguments = line.split()
        module = importlib.import_module(file.removesuffix(".py"))
        module.BENCHMARK.parser().parse_args(arguments)


def test_report_runs_without_other_packages() -> None:
    """The report must be written even if NumPy or CuPy cannot be imported."""
    command = [sys.executable, "-I", "-S", gpu_report.__file__, "--help"]
    subprocess.run(command, check=True, capture_output=True)


def test_termination_ends_the_checks(tmp_path: Path) -> None:
    """The results so far are in the files, and no process of the checks remains."""
    announced = "import os, time; os.write(2, b'%d' % os.getpid()); time.sleep(99)"
    code = (
        "import sys, gpu_report\n"
        f"smoke = [sys.executable, '-c', {announced!r}]\n"
        "gpu_report.signal.signal(gpu_report.signal.SIGTERM, gpu_report.interrupt)\n"
        "gpu_report.subprocess.STDOUT = None\n"
        f"gpu_report.main(['--out', {str(tmp_path)!r}], gpu_report.Plan(smoke))\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as run:
        assert run.stderr is not None
        child = int(os.read(run.stderr.fileno(), 99))
        run.terminate()
        assert run.wait(30) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert not json.loads((tmp_path / "report.json").read_text())["finished"]


@pytest.mark.parametrize(("errors", "status"), [(0, "passed"), (9, "failed")])
def test_errors_of_the_sanitizer_fail_a_check(
    tmp_path: Path, errors: int, status: str
) -> None:
    """A program replaces the sanitizer, and writes its log and exit status."""
    program = tmp_path / "compute-sanitizer"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "assert sys.argv[1:5:2] == ['--tool', '--error-exitcode']\n"
        "log = sys.argv[sys.argv.index('--log-file') + 1]\n"
        "assert sys.argv[-4:] == ['--small', '--no-pool', '--run', 'scan, warp']\n"
        "open(log, 'w').write('========= ERROR SUMMARY')\n"
        f"sys.exit({errors})\n"
    )
    program.chmod(0o755)
    plan = PLAN._replace(sanitizer=lambda: str(program))
    results = gpu_report.Report(tmp_path, 1, plan, tmp_path)
    gpu_report.sanitize(["scan, warp"], results)
    assert statuses(results.contents) == {"memcheck": status, "racecheck": status}
    assert not errors or "ERROR SUMMARY" in results.contents["checks"][0]["reason"]


# ---- the checks ----------------------------------------------------------------------


def test_every_public_function_has_a_check() -> None:
    checks = [check.name for check in gpu_smoke.checks()]
    assert len(checks) == len({*checks})
    assert {*gpu_smoke.SANITIZED} <= {*checks}
    names = {name.partition(",")[0] for name in checks}
    types = {"Gradients", "Map", "Monoid", "NNLSResult", "Proof", "RegularizationPath"}
    types |= {"show_config"}
    rooms = {"emulator", "gam", "reference", "sparse", "studies"}
    for name in set(gpusolve.__all__) - types - rooms:
        assert name in names
    for name in set(sparse.__all__) - {"random_coo"}:  # it runs on the host only
        assert f"sparse.{name}" in names
    assert "gam.BoostedGAM" in names


CALLS = {check.name: check for check in gpu_smoke.checks() if check.make}
FIRST = {name.partition(",")[0]: name for name in reversed(CALLS)}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in FIRST.values()))
        for name in CALLS
    ],
)
def test_each_call_computes_on_the_device_of_its_arrays(
    name: str,
) -> None:
    """The first of two devices is current, and the arrays are on the second.

    The stand-in refuses a computation on another device. Results are NumPy's.
    """
    with cupy_stand_in.installed() as cupy:
        settings = kernel_calls.Settings(cupy, small=True)
        call = CALLS[name].make(settings)
        expected = call.expected()
        with cupy.cuda.Device(1):
            given = call.arguments_on_gpu(cupy)
        found = call.on(given)
        assert cupy.cuda.Device().id == 0
        for one in found if isinstance(found, tuple) else (found,):
            data = one.data if kernel_calls.xp_issparse(one) else one
            if not name.startswith("gam."):  # a path is on the host
                assert data.device.id == 1
        call.compare(found, expected)
