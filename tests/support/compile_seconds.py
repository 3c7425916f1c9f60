"""Seconds of NVRTC for every kernel, as its first call takes them, without a GPU.

The seconds are of the CPU's time, for one instance on sm_90. They are not tested.
``python tests/support/compile_seconds.py`` writes the table.
"""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

from kernel_resources import Source, all_sources, compile_source

TABLE = Path(__file__).parents[2] / "benchmarks" / "results" / "compile_cpu.md"

HEADER = """\
# Seconds of NVRTC

What the first call of a kernel takes to compile it for sm_90 with NVRTC 12.9, in
seconds of the time of one CPU core, on a virtual machine with AMD EPYC. CuPy then keeps
the kernel on disk. Measured by `tests/support/compile_seconds.py`; not tested, as it
depends on the machine. Each time is the lesser of two. A kernel with several instances
has the time of the slowest instance, among the instances for one dtype or operator.

| file | kernel | seconds |
| --- | --- | ---: |
"""


def seconds(source: Source, instance: str) -> float:
    """The time to compile one instance: the lesser of two, as the first loads NVRTC."""
    single = source._replace(instances=(instance,))
    begin = time.process_time()
    compile_source.__wrapped__(single, 90)
    middle = time.process_time()
    compile_source.__wrapped__(single, 90)
    return min(middle - begin, time.process_time() - middle)


def table() -> str:
    """The slowest instance of each kernel, in the first source that has the kernel."""
    measured: dict[tuple[str, str], float] = {}
    for source in all_sources():
        instances: dict[tuple[str, str], list[str]] = defaultdict(list)
        for instance in source.instances:
            instances[source.file, instance.split("<")[0]].append(instance)
        for kernel in instances.keys() - measured.keys():
            measured[kernel] = max(
                seconds(source, instance) for instance in instances[kernel]
            )
    lines = [
        f"| `{file}.cu` | `{kernel}` | {took:.2f} |\n"
        for (file, kernel), took in sorted(measured.items())
    ]
    return HEADER + "".join(lines)


if __name__ == "__main__":
    TABLE.write_text(table())
