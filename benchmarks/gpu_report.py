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
import datetime
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
SMOKE = [sys.executable, str(HERE / "gpu_smoke.py")]
"""The command that runs checks."""

PASSED, FAILED, SKIPPED, STOPPED, NOT_RUN = (
    "passed",
    "failed",
    "skipped",
    "stopped",
    "not run",
)

FACTS_SECONDS = 60
SANITIZER_SECONDS = 60
BENCHMARK_SECONDS = 180

PARTS = {"smoke": 0.45, "sanitizer": 0.6, "stress": 0.7, "benchmarks": 1.0}
"""When each part ends, as a fraction of the total time."""
LEAST_SECONDS = {"smoke": 2, "sanitizer": 15, "stress": 2, "benchmarks": 5}

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
    """What a report runs, and the limits on its time.

    Attributes
    ----------
    smoke : list of str
        The command that runs checks.
    benchmarks, rehearsed : list of str
        Scripts with their arguments; the second of small runs.
    sanitizer : callable
        Returns the path of compute-sanitizer, or None.
    check_seconds : float
        Seconds after which a check fails because it hangs.
    least_seconds : dict
        No check and no benchmark of a part begins with less time left.
    """

    smoke: list[str] = SMOKE
    benchmarks: list[str] = BENCHMARKS
    rehearsed: list[str] = REHEARSED
    sanitizer: Callable[[], str | None] = sanitizer
    check_seconds: float = 60
    least_seconds: dict[str, float] = LEAST_SECONDS


# ---- the clock and the report --------------------------------------------------------


class Report:
    """The results so far, in two files, and the time left for each part."""

    def __init__(self, folder: Path, minutes: float, plan: Plan, cache: Path) -> None:
        self.folder, self.plan, self.cache = folder, plan, cache
        self.begin = time.monotonic()
        self.facts: dict[str, str] = {}
        self.checks: list[dict[str, Any]] = []
        self.benchmarks: list[dict[str, Any]] = []
        self.about = {
            "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "minutes": minutes,
            "finished": False,
        }
        folder.mkdir(parents=True, exist_ok=True)

    def passed_seconds(self) -> float:
        return time.monotonic() - self.begin

    def left(self, part: str) -> float:
        return PARTS[part] * 60 * self.about["minutes"] - self.passed_seconds()

    def fits(self, part: str) -> bool:
        return self.left(part) >= self.plan.least_seconds[part]

    def add(self, part: str, name: str, status: str, **details: Any) -> None:
        """Add a check, or a part of several."""
        self.checks.append({"part": part, "name": name, "status": status, **details})
        remark = details.get("error") or details.get("reason") or ""
        print(f"{status:<8} {name}  {remark.strip().rpartition(chr(10))[2]}".rstrip())
        self.write()

    def add_benchmark(self, name: str, status: str, **details: Any) -> None:
        self.benchmarks.append({"name": name, "status": status, **details})
        print(f"{status:<8} {name}  {details.get('reason', '')}".rstrip(), flush=True)
        self.write()

    @property
    def passed(self) -> bool:
        """Whether every check passed that this machine can run."""
        statuses = {one["status"] for one in self.checks}
        failed = any(one["status"] == FAILED for one in self.benchmarks)
        return PASSED in statuses and statuses <= {PASSED, SKIPPED} and not failed

    def contents(self) -> dict[str, Any]:
        return {
            **self.about,
            "seconds": round(self.passed_seconds(), 1),
            "passed": self.passed,
            "facts": self.facts,
            "checks": self.checks,
            "benchmarks": self.benchmarks,
        }

    def write(self) -> None:
        contents = self.contents()
        replace(self.folder / "report.json", json.dumps(contents, indent=1) + "\n")
        replace(self.folder / "report.md", "\n".join(page(contents)) + "\n")


def replace(path: Path, text: str) -> None:
    """Replace a file atomically."""
    new = path.with_suffix(path.suffix + ".new")
    new.write_text(text)
    new.replace(path)


def page(contents: dict[str, Any]) -> Iterator[str]:
    """The Markdown page."""
    facts, checks = contents["facts"], contents["checks"]
    yield f"# gpusolve on {facts.get('gpu', 'no GPU')}\n"
    if "why not" in facts:
        yield f"**No GPU was found:** {facts['why not']}\n"
    state = "finished" if contents["finished"] else "unfinished"
    yield (
        f"{contents['date']}, {contents['minutes']:g} minutes given, {state} after "
        f"{contents['seconds']:.0f} s.\n"
    )
    counts = {
        status: sum(one["status"] == status for one in checks)
        for status in (PASSED, FAILED, SKIPPED, STOPPED, NOT_RUN)
    }
    counted = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
    yield f"Checks: {counted or 'none'}.\n"
    yield from (f"- {name}: {value}" for name, value in facts.items())
    not_passed = [one for one in checks if one["status"] not in (PASSED, NOT_RUN)]
    if not_passed:
        yield "\n## Checks that did not pass\n"
    for one in not_passed:
        yield f"**{one['name']}** ({one['part']}): {one['status']}\n"
        yield f"```\n{one.get('error') or one['reason']}\n```\n"
    if checks:
        yield "\n## Checks\n"
        yield "The first call may compile; the second does not.\n"
        yield "| part | check | result | first ms | second ms | with NumPy s |"
        yield "|---|---|---|---:|---:|---:|"
    for one in checks:
        cells = (milliseconds(one.get(name)) for name in ("first", "second"))
        seconds = f"{one['seconds']:.1f}" if "seconds" in one else ""
        yield (
            f"| {one['part']} | {one['name']} | {one['status']} "
            f"| {' | '.join(cells)} | {seconds} |"
        )
    for one in contents["benchmarks"]:
        yield f"\n## benchmarks/{one['name']}\n"
        spent = f", {one['seconds']:.0f} s" if "seconds" in one else ""
        yield f"{one['status']}{spent}\n"
        if one.get("reason"):
            yield f"```\n{one['reason']}\n```\n"
        yield re.sub("^#", "###", one.get("output", ""), flags=re.MULTILINE)


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.3f}"


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


running: list[Process] = []
"""Processes that have not ended."""


class Process:
    """A process whose output is read line by line, with a timeout for each line."""

    def __init__(self, command: list[str], cache: Path) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.popen = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            errors="replace",
            env=environment(cache),
            cwd=HERE,
            start_new_session=True,
        )
        running.append(self)
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        running.remove(self)
        self.reader.join(10)
        self.errors.close()
        if not self.reader.is_alive() and self.popen.stdout is not None:
            self.popen.stdout.close()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def line(self, seconds: float) -> str | None:
        """Return the next line, None at the end; TimeoutError if neither comes."""
        try:
            return self.lines.get(timeout=max(0.0, seconds))
        except queue.Empty:
            raise TimeoutError from None

    def end(self, timeout: float = 0.0) -> int | None:
        """Return the exit status; kill the process and its children if necessary.

        None if it does not die, as while the driver waits for the GPU.
        """
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.popen.pid, signal.SIGKILL)
        try:
            return self.popen.wait(10)
        except subprocess.TimeoutExpired:
            return None

    def last_errors(self) -> str:
        """The last lines that the process wrote to stderr."""
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-LAST_LINES:])


def run_all(command: list[str], cache: Path, seconds: float) -> tuple[int | None, str]:
    """Run a process; its exit status, None after a timeout, and its output."""
    until = time.monotonic() + seconds
    lines: list[str] = []
    with Process(command, cache) as process:
        try:
            while (line := process.line(until - time.monotonic())) is not None:
                lines.append(line)
        except TimeoutError:
            return None, "".join(lines)
        status = process.end(10)
        if status:
            lines.append(process.last_errors())
    return status, "".join(lines)


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
    left = list(names)
    while left and report.fits(part):
        done = []
        command = [*report.plan.smoke, *options, "--run", *left]
        with Process(command, report.cache) as process:
            for found in follow(process, part, report):
                done.append(found["name"])
                yield found
            status = process.end(10)
            errors = process.last_errors()
        if not done and report.fits(part):
            error = f"no process for checks: status {status}\n{errors}"
            yield {"name": left[0], "status": FAILED, "error": error}
            reason = "no process for checks"
            for name in left[1:]:
                yield {"name": name, "status": NOT_RUN, "reason": reason}
            return
        left = [name for name in left if name not in done]
    for name in left:
        yield {"name": name, "status": NOT_RUN, "reason": NO_TIME}


def follow(process: Process, part: str, report: Report) -> Iterator[dict[str, Any]]:
    """Yield the results of one process until it ends, hangs or the time is over."""
    begun, limit = None, report.plan.check_seconds
    while True:
        timeout = min(limit, report.left(part))
        try:
            line = process.line(timeout)
        except TimeoutError:
            process.end()
            if begun is not None and timeout < limit:
                yield {"name": begun, "status": STOPPED, "reason": NO_TIME}
            elif begun is not None:
                error = f"hangs: no end in {timeout} s"
                yield {"name": begun, "status": FAILED, "error": error}
            return
        if line is None:
            if begun is not None:
                status = process.end(10)
                error = f"the process ended: {status}\n{process.last_errors()}"
                yield {"name": begun, "status": FAILED, "error": error}
            return
        found = parsed(line)
        begun = found.get("begins", begun)
        if "name" in found:
            begun = None
            status = PASSED if found.pop("ok") else FAILED
            yield {**found, "status": status}
            if not report.fits(part):
                process.end()
                return


def facts(report: Report) -> list[tuple[str, str, bool]]:
    """Describe the machine in the report, and return the list of checks."""
    status, output = run_all(
        [*report.plan.smoke, "--list"], report.cache, FACTS_SECONDS
    )
    for line in output.splitlines():
        if "facts" in (found := parsed(line)):
            report.facts = found["facts"]
            report.write()
            return [tuple(check) for check in found["checks"]]
    report.facts = {"why not": f"no facts (status {status})\n{output}"}
    report.write()
    return []


def second_process(names: list[str], options: list[str], report: Report) -> None:
    """A second process must compile no kernel that the first one compiled."""
    name = "a second process finds the kernels"
    before = {
        one["name"]: one["first"]
        for one in report.checks
        if one["name"] in names and one["status"] == PASSED and "first" in one
    }
    if not before or not report.fits("smoke"):
        report.add("smoke", name, NOT_RUN, reason="no check to repeat, or no time")
        return
    files = files_in(report.cache)
    found = list(run_checks("smoke", list(before), options, report))
    new = len(files_in(report.cache) - files)
    now = sum(one.get("first", 0.0) for one in found)
    details = {"first": sum(before.values()), "second": now}
    failed = [one["name"] for one in found if one["status"] != PASSED]
    if failed:
        error = f"did not pass in the second process: {', '.join(failed)}"
    elif not files:
        error = "the first process left no kernel in the cache"
    else:
        error = f"{new} kernels were compiled again" if new else ""
    if error:
        report.add("smoke", name, FAILED, error=error, **details)
    else:
        report.add("smoke", name, PASSED, **details)


def files_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


# ---- compute-sanitizer ---------------------------------------------------------------


def sanitize(names: list[str], report: Report) -> None:
    """Run memcheck and racecheck on small inputs, with an allocation for each array."""
    program = report.plan.sanitizer()
    for tool in ("memcheck", "racecheck"):
        if program is None:
            reason = "compute-sanitizer is not installed"
            report.add("sanitizer", tool, SKIPPED, reason=reason)
            continue
        if not report.fits("sanitizer"):
            report.add("sanitizer", tool, NOT_RUN, reason=NO_TIME)
            continue
        log = report.folder / f"{tool}.log"
        command = [program, "--tool", tool, "--error-exitcode", "9"]
        command += ["--report-api-errors", "no", "--target-processes", "all"]
        command += ["--log-file", str(log), *report.plan.smoke]
        command += ["--small", "--no-pool", "--run", *names]
        begin = time.monotonic()
        timeout = min(SANITIZER_SECONDS, report.left("sanitizer"))
        status, output = run_all(command, report.cache, timeout)
        details = {"seconds": time.monotonic() - begin}
        said = log.read_text(errors="replace") if log.exists() else ""
        if status == 0:
            report.add("sanitizer", tool, PASSED, **details)
        elif status is None and not re.search(COMPLAINTS, said, re.MULTILINE):
            reason = f"no end in {timeout:.0f} s, no error until then"
            report.add("sanitizer", tool, STOPPED, reason=reason, **details)
        else:
            found = [f"status {status}", *said.splitlines()[-LAST_LINES:]]
            lines = map(parsed, output.splitlines())
            found += [
                f"{one['name']}: {one['error']}" for one in lines if "error" in one
            ]
            report.add("sanitizer", tool, FAILED, error="\n".join(found), **details)


# ---- benchmarks ----------------------------------------------------------------------


def run_benchmarks(listed: list[str], report: Report) -> None:
    """Run each benchmark with a time limit; keep its output up to the limit."""
    for line in listed:
        if not report.fits("benchmarks"):
            report.add_benchmark(line, NOT_RUN, reason=NO_TIME)
            continue
        timeout = min(BENCHMARK_SECONDS, report.left("benchmarks"))
        file, *arguments = line.split()
        command = [sys.executable, str(HERE / file), *arguments]
        begin = time.monotonic()
        status, output = run_all(command, report.cache, timeout)
        details: dict[str, Any] = {
            "seconds": time.monotonic() - begin,
            "output": output,
        }
        missing = re.search(r"ModuleNotFoundError: No module named '(.+)'", output)
        if status is None:
            reason = f"no end in {timeout:.0f} s"
            report.add_benchmark(line, STOPPED, reason=reason, **details)
        elif status and missing:
            report.add_benchmark(line, SKIPPED, reason=f"needs {missing[1]}")
        else:
            report.add_benchmark(line, FAILED if status else PASSED, **details)


# ---- the whole report ----------------------------------------------------------------


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--minutes", type=float, default=9.0, help="a hard limit")
    parser.add_argument(
        "--small", action="store_true", help="small inputs, for a rehearsal"
    )
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="only checks whose name matches"
    )
    return parser.parse_args(given)


def run(options: argparse.Namespace, report: Report) -> None:
    """Run all parts."""
    listed = facts(report)
    if "gpu" not in report.facts:
        print(f"no GPU was found: {report.facts.get('why not')}")
        return
    chosen = [one for one in listed if re.search(options.only, one[0])]
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
            report.about["finished"] = True
        finally:
            report.write()
            for process in running:  # a signal ended the block that would end it
                process.end()
    print(f"{report.folder / 'report.md'}")
    return 0 if report.passed else 1


def interrupt(*_: object) -> None:
    """Let `main` end the other processes and write the report."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main())
