"""Latencies of a GPU's instructions: clocks until a result can be used.

They hold within about 15 % from Ampere to Hopper. Sources:

- memory: Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU
  Architecture", arXiv:2402.13499 (A100 and H100: first-level cache 38 to 41, shared
  memory 29, L2 cache 262, device memory 466 to 479; RTX 4090: 43, 30, 273, 542);
- arithmetic: Abdelkhalik et al., "Demystifying the Nvidia Ampere Architecture through
  Microbenchmarking and Instruction-level Analysis", arXiv:2208.11174;
- the others: stall counts and scoreboards of machine code for sm_90, read by nvdisasm.
"""

from __future__ import annotations

LATENCY_CLOCKS = {
    "arithmetic": 4,  # float32 and int32
    "float64": 8,
    "special": 18,  # reciprocals, roots, exponentials; conversions
    "shared": 30,
    "shared generic": 35,  # through a pointer whose address space is unknown
    "l1": 40,
    "l2": 270,
    "memory": 480,
    "shuffle": 25,
    "vote": 12,
    "branch": 10,  # taken; until the first instruction of the target issues
    "barrier": 40,  # of a block whose warps arrive together
    "atomic": 540,  # to the L2 cache and back, and the operation there
}
"""By the kind of instruction."""
