"""Check every path on a GPU and time it, in ten minutes.

    python benchmarks/gpu_report.py --out DIR --minutes 9

Runs from a plain checkout with CuPy, NumPy and SciPy alone. In this order: a
description of the machine; each public function in each of its paths (`gpu_smoke.py`);
a second process, which must find the kernels in CuPy's cache; memcheck and racecheck of
compute-sanitizer on some of these checks; stress checks of look-back and of the grid
barrier; the benchmarks, the most important first, until the time is over.

`report.json` and `report.md` are rewritten after every step, so that the results so far
survive if this process is killed. Everything that uses the GPU runs in other processes:
a failure ends at most one check. The exit status is 0 only if every check passed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
SMOKE = [sys.executable, str(HERE / "gpu_smoke.py")]
"""The command that runs checks."""

PASSED, FAILED, SKIPPED, NOT_RUN = "passed", "failed", "skipped", "not run"

CHECK_SECONDS, FACTS_SECONDS, SANITIZER_SECONDS, BENCHMARK_SECONDS = 60, 60, 60, 180
"""Limits on a check, on the description of the machine, and on other processes."""

PARTS = {"smoke": 0.45, "sanitizer": 0.6, "stress": 0.7, "benchmarks": 1.0}
"""When each part ends, as a fraction of the total time."""
LEAST_SECONDS = {"smoke": 2, "sanitizer": 15, "stress": 2, "benchmarks": 5}
"""No check and no benchmark of a part begins with less time left."""

FALLBACKS = ("threadpoolctl", "tqdm")
"""Packages that have a stand-in in `fallbacks/`."""

COMPLAINTS = r"^=+ (Invalid|Error|Fatal)|Race reported|hazard"
"""Lines of compute-sanitizer that report an error, before the summary at the end."""

LAST_LINES = 20
NO_TIME = "no time was left"

BENCHMARKS = [
    "nnls.py --small",
    "blocks.py --parts blocks --sizes 1e4 1e7 --repeats 5",
    "gpu_calls.py",
    "gam.py --parts families folds --sizes 1e4 --repeats 3 --no-peers",
    "blocks.py --parts multiply spmv --sizes 1e4 1e6 --repeats 5",
    "nnls.py --repeats 3",
    "blocks.py --parts gemv",
    "gam.py --parts families folds --sizes 1e5 --repeats 3 --no-peers",
    "hard.py --parts degenerate --sizes 20000",
    "blocks.py",
    "gam.py",
]
"""The most important first; small sizes of each before larger ones."""
REHEARSED = ["blocks.py --small --parts blocks"]


def sanitizer() -> str | None:
    """The path of compute-sanitizer, None if it is not installed."""
    homes = (os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME"))
    places = [home for home in homes if home] + ["/usr/local/cuda"]
    found = (shutil.which("compute-sanitizer", path=f"{one}/bin") for one in places)
    return shutil.which("compute-sanitizer") or next(filter(None, found), None)


class Plan(NamedTuple):
    """What a report runs: the command of the checks, scripts with their arguments, and
    a function that finds compute-sanitizer; and the limits on time.
    """

    smoke: list[str] = SMOKE
    benchmarks: list[str] = BENCHMARKS
    rehearsed: list[str] = REHEARSED
    sanitizer: Callable[[], str | None] = sanitizer
    check_seconds: float = CHECK_SECONDS
    least_seconds: dict[str, float] = LEAST_SECONDS


# ---- the report ----------------------------------------------------------------------


class Report:
    """The results so far, in two files, and the time left for each part."""

    def __init__(self, folder: Path, minutes: float, plan: Plan, cache: Path) -> None:
        self.folder, self.plan, self.cache = folder, plan, cache
        self.begin = time.monotonic()
        self.contents: dict[str, Any] = {
            "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "minutes": minutes,
            "finished": False,
            "facts": {},
            "checks": [],
        }
        folder.mkdir(parents=True, exist_ok=True)

    def left(self, part: str) -> float:
        end = PARTS[part] * 60 * self.contents["minutes"]
        return float(end + self.begin - time.monotonic())

    def fits(self, part: str) -> bool:
        return self.left(part) >= self.plan.least_seconds[part]

    def add(self, part: str, name: str, status: str, **details: Any) -> None:
        """Add a check or a benchmark."""
        found = {"part": part, "name": name, "status": status, **details}
        self.contents["checks"].append(found)
        remark = details.get("reason", "").strip().rpartition("\n")[2]
        print(f"{status:<8} {name}  {remark}".rstrip(), flush=True)
        self.write()

    @property
    def passed(self) -> bool:
        """Whether every check passed that this machine can run."""
        checks = self.contents["checks"]
        of_checks = {one["status"] for one in checks if one["part"] != "benchmarks"}
        failed = any(one["status"] == FAILED for one in checks)
        return PASSED in of_checks and of_checks <= {PASSED, SKIPPED} and not failed

    def write(self) -> None:
        seconds = round(time.monotonic() - self.begin, 1)
        contents = {**self.contents, "seconds": seconds, "passed": self.passed}
        page = "\n".join(page_of(contents))
        for name, text in (("json", json.dumps(contents, indent=1)), ("md", page)):
            new = self.folder / f"report.{name}.new"
            new.write_text(text + "\n")
            new.replace(new.with_suffix(""))


def page_of(contents: dict[str, Any]) -> Iterator[str]:
    """The Markdown page."""
    facts, checks = contents["facts"], contents["checks"]
    yield f"# gpusolve on {facts.get('gpu', 'no GPU')}\n"
    state = "finished" if contents["finished"] else "unfinished"
    yield f"{contents['date']}, {contents['minutes']:g} minutes given, {state} after"
    yield f"{contents['seconds']:.0f} s.\n"
    counts = Counter(one["status"] for one in checks).items()
    yield f"Checks: {', '.join(f'{n} {status}' for status, n in counts) or 'none'}.\n"
    yield from (f"- {name}: {value}" for name, value in facts.items())
    yield "\n## Checks\n\nThe first call may compile; the second does not.\n"
    yield "| part | check | result | first ms | second ms | with NumPy s |"
    yield "| --- | --- | --- | ---: | ---: | ---: |"
    for one in checks:
        times = (one[k] * 1000 if k in one else None for k in ("first", "second"))
        cells = ["" if time is None else f"{time:.3f}" for time in times]
        cells.append(f"{one['seconds']:.1f}" if "seconds" in one else "")
        cells = [one["part"], one["name"], one["status"], *cells]
        yield f"| {' | '.join(cells)} |"
    for one in checks:
        if one.get("reason") or one.get("output"):
            yield f"\n## {one['name']}: {one['status']}\n"
        if one.get("reason"):
            yield f"```\n{one['reason']}\n```\n"
        yield re.sub("^#", "###", one.get("output", ""), flags=re.MULTILINE)


# ---- other processes -----------------------------------------------------------------


def environment(cache: Path) -> dict[str, str]:
    """Environment of other processes: import path and kernel cache."""
    places = [str(HERE.parent), str(HERE)]
    if os.environ.get("PYTHONPATH"):
        places.append(os.environ["PYTHONPATH"])
    missing = (name for name in FALLBACKS if importlib.util.find_spec(name) is None)
    places.extend(str(HERE / "fallbacks" / name) for name in missing)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(places),
        "CUPY_CACHE_DIR": str(cache),
        "PYTHONUNBUFFERED": "1",
    }


@contextlib.contextmanager
def started(
    command: list[str], cache: Path, seconds: float
) -> Iterator[subprocess.Popen[str]]:
    """A process with one stream of output. It is killed at the end or after seconds."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment(cache),
        cwd=HERE,
        start_new_session=True,
    )
    timer = threading.Timer(max(0.0, seconds), kill, [process])
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        kill(process)
        if process.stdout:
            process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)  # it may not die, as while the driver waits for the GPU


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and its children, unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def run_all(command: list[str], cache: Path, seconds: float) -> tuple[int | None, str]:
    """Run a process; its exit status, None after a timeout, and its output."""
    until = time.monotonic() + seconds
    with started(command, cache, seconds) as process:
        output = process.stdout.read() if process.stdout else ""
        process.wait()
    return None if time.monotonic() >= until else process.returncode, output


# ---- checks --------------------------------------------------------------------------


def parsed(line: str) -> dict[str, Any]:
    """Parse a line of `gpu_smoke.py`; an empty dict for any other line."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def run_checks(
    part: str, names: list[str], options: list[str], report: Report
) -> Iterator[dict[str, Any]]:
    """Yield the result of each check; start a new process after a crash or a hang."""
    left, plan = list(names), report.plan
    options = [*options, "--seconds", str(plan.check_seconds), "--run"]
    while left and report.fits(part):
        printed: deque[str] = deque(maxlen=LAST_LINES)
        begun, count = None, len(left)
        command = [*plan.smoke, *options, *left]
        with started(command, report.cache, report.left(part)) as process:
            for line in process.stdout or ():
                found = parsed(line)
                begun = found.get("begins", begun)
                if "name" in found:
                    left.remove(found["name"])
                    status = PASSED if found.pop("ok") else FAILED
                    yield {**found, "status": status}
                    if not report.fits(part):
                        break
                elif not found:
                    printed.append(line)
        if report.fits(part):
            never_began = left if len(left) == count else []
            reason = f"the process ended: {process.returncode}\n{''.join(printed)}"
            for name in [begun] if begun in left else [*never_began]:
                left.remove(name)
                yield {"name": name, "status": FAILED, "reason": reason}
    for name in left:
        yield {"name": name, "status": NOT_RUN, "reason": NO_TIME}


def second_process(names: list[str], options: list[str], report: Report) -> None:
    """A second process must compile no kernel that the first one compiled."""
    name = "a second process finds the kernels"
    before = {
        one["name"]: one["first"]
        for one in report.contents["checks"]
        if one["name"] in names and one["status"] == PASSED and "first" in one
    }
    if not before or not report.fits("smoke"):
        report.add("smoke", name, NOT_RUN, reason="no check to repeat, or no time")
        return
    files = set(report.cache.rglob("*"))
    found = list(run_checks("smoke", list(before), options, report))
    new = len(set(report.cache.rglob("*")) - files)
    now = sum(one.get("first", 0.0) for one in found)
    reasons = [f"{one['name']} failed" for one in found if one["status"] != PASSED]
    if not files:
        reasons.append("the first process left no kernel in the cache")
    if new:
        reasons.append(f"{new} kernels were compiled again")
    status, reason = FAILED if reasons else PASSED, "\n".join(reasons)
    details = {"first": sum(before.values()), "second": now, "reason": reason}
    report.add("smoke", name, status, **details)


# ---- compute-sanitizer ---------------------------------------------------------------


def sanitize(names: list[str], report: Report) -> None:
    """Run memcheck and racecheck on small inputs, with an allocation for each array."""
    program = report.plan.sanitizer()
    for tool in ("memcheck", "racecheck"):
        if program is None or not report.fits("sanitizer"):
            reason = NO_TIME if program else "compute-sanitizer is not installed"
            status = NOT_RUN if program else SKIPPED
            report.add("sanitizer", tool, status, reason=reason)
            continue
        log = report.folder / f"{tool}.log"
        command = [program, "--tool", tool, "--error-exitcode", "9"]
        command += ["--report-api-errors", "no", "--target-processes", "all"]
        command += ["--log-file", str(log), *report.plan.smoke]
        command += ["--small", "--no-pool", "--run", *names]
        begin = time.monotonic()
        timeout = min(SANITIZER_SECONDS, report.left("sanitizer"))
        status, output = run_all(command, report.cache, timeout)
        seconds = time.monotonic() - begin
        said = log.read_text(errors="replace") if log.exists() else ""
        if status == 0:
            report.add("sanitizer", tool, PASSED, seconds=seconds)
        elif status is None and not re.search(COMPLAINTS, said, re.MULTILINE):
            reason = f"no end in {timeout:.0f} s, no error until then"
            report.add("sanitizer", tool, NOT_RUN, reason=reason, seconds=seconds)
        else:
            lines = [f"status {status}", *said.splitlines()[-LAST_LINES:]]
            lines += output.splitlines()[-LAST_LINES:]
            report.add("sanitizer", tool, FAILED, reason="\n".join(lines))


# ---- the whole report ----------------------------------------------------------------


def run_benchmarks(listed: list[str], report: Report) -> None:
    """Run each benchmark with a time limit; keep its output up to the limit."""
    for line in listed:
        if not report.fits("benchmarks"):
            report.add("benchmarks", line, NOT_RUN, reason=NO_TIME)
            continue
        timeout = min(BENCHMARK_SECONDS, report.left("benchmarks"))
        file, *arguments = line.split()
        command = [sys.executable, str(HERE / file), *arguments]
        begin = time.monotonic()
        code, output = run_all(command, report.cache, timeout)
        details = {"output": output, "seconds": time.monotonic() - begin}
        missing = re.search(r"ModuleNotFoundError: No module named '(.+)'", output)
        if code is None:
            status, details["reason"] = NOT_RUN, f"no end in {timeout:.0f} s"
        elif code and missing:
            status, details = SKIPPED, {"reason": f"needs {missing[1]}"}
        else:
            status = FAILED if code else PASSED
        report.add("benchmarks", line, status, **details)


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--minutes", type=float, default=9.0, help="a hard limit")
    parser.add_argument("--small", action="store_true", help="small, for a rehearsal")
    parser.add_argument("--only", default="", metavar="REGEX", help="of check names")
    return parser.parse_args(given)


def run(options: argparse.Namespace, report: Report) -> None:
    """Describe the machine, and run all parts."""
    command = [*report.plan.smoke, "--list"]
    status, output = run_all(command, report.cache, FACTS_SECONDS)
    found = {
        key: value
        for line in output.splitlines()
        for key, value in parsed(line).items()
    }
    facts = found.get("facts", {"why not": f"no facts (status {status})\n{output}"})
    report.contents["facts"] = facts
    if "gpu" not in facts:
        print(f"no GPU was found: {facts.get('why not')}")
        return
    chosen = [one for one in found["checks"] if re.search(options.only, one[0])]
    sanitized = [name for name, _, is_sanitized in chosen if is_sanitized]
    small = ["--small"] if options.small else []

    def run_part(part: str) -> None:
        names = [name for name, its_part, _ in chosen if its_part == part]
        for found in run_checks(part, names, small, report):
            report.add(part, **found)

    run_part("smoke")
    second_process(sanitized, small, report)
    sanitize(sanitized, report)
    run_part("stress")
    plan = report.plan
    run_benchmarks(plan.rehearsed if options.small else plan.benchmarks, report)


def main(given: list[str] | None = None, plan: Plan | None = None) -> int:
    options = arguments(given)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        report = Report(options.out, options.minutes, plan or Plan(), Path(cache))
        report.write()
        try:
            run(options, report)
            report.contents["finished"] = True
        finally:
            report.write()
    print(f"{report.folder / 'report.md'}")
    return 0 if report.passed else 1


def interrupt(*_: object) -> None:
    """Let `started` end the other process, and `main` write the report."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main())
