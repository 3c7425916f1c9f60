"""`RawKernel` and `RawModule` have CuPy's signatures, and behave as a GPU does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator
from together import together

from gpusolve.emulator import (
    CompileError,
    KernelError,
    RawKernel,
    RawModule,
    memcheck,
    profile,
)

pytestmark = needs_emulator

SCALE = """
#ifndef FACTOR
#define FACTOR 2
#endif
extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= FACTOR; }
"""

MODULE = """
__constant__ float weights[2] = {1, 2};
static __constant__ int fixed = 7;
__device__ int launches;  // counts
__device__ float weighted(float x) { return weights[0] * x + weights[1]; }

template <class T>
__global__ void apply(T* x) {
    x[threadIdx.x] = weighted(x[threadIdx.x]);
    if (threadIdx.x == 0) ++launches;
}

__global__ void read(int* out) {
    out[0] = launches;
    out[1] = fixed;
}
"""


def scaled(*options: str) -> list[float]:
    x = np.ones(4, np.float32)
    RawKernel(SCALE, "scale", options)((1,), (4,), (x,))
    return list(x)


# ---- signatures ----------------------------------------------------------------------


def test_parameters_are_those_of_cupy() -> None:
    """Of CuPy 14, from the pages of its documentation; the `path` of a cubin lacks."""
    options = {"options": (), "backend": "nvrtc", "translate_cucomplex": False}
    rest = {"enable_cooperative_groups": False, "name_expressions": None}
    for ours, names, theirs in (
        (RawKernel, ["code", "name"], {**options, "enable_cooperative_groups": False}),
        (RawModule, ["code"], {**options, **rest}),
    ):
        parameters = inspect.signature(ours).parameters
        own = ["ptx"] if ours is RawModule else []
        assert list(parameters) == [*names, *theirs, "jitify", *own]
        for name, default in {**theirs, "jitify": None}.items():
            assert parameters[name].default == default


def test_attributes_are_a_part_of_those_of_cupy() -> None:
    kernel = RawKernel(SCALE, "scale")
    assert kernel.name == "scale"
    assert kernel.code == SCALE
    assert kernel.attributes["shared_size_bytes"] == 0
    assert kernel.attributes["max_threads_per_block"] == 1024


# ---- options -------------------------------------------------------------------------


def test_options_define_macros(tmp_path: Path) -> None:
    assert scaled() == [2] * 4
    assert scaled("-DFACTOR=5") == [5] * 4
    assert (
        scaled("--define-macro=FACTOR=6", "--std=c++14", "--use_fast_math") == [6] * 4
    )
    (tmp_path / "factor.h").write_text("constexpr float factor = 9;\n")
    kernel = RawKernel(
        '#include "factor.h"\n__global__ void scale(float* x) { *x *= factor; }',
        "scale",
        (f"-I{tmp_path}",),
    )
    x = np.ones(1, np.float32)
    kernel((1,), (1,), (x,))
    assert x[0] == 9


# ---- shared memory -------------------------------------------------------------------

COPY = """
extern __shared__ float tile[];
__global__ void copy(float* x, int n) {
    __shared__ float own[32];
    own[threadIdx.x] = x[threadIdx.x];
    tile[n - 1] = own[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[n - 1];
}
"""


def test_more_than_48_kilobytes_must_be_asked_for() -> None:
    """As on a GPU, where the launch fails without it."""
    kernel = RawKernel(COPY, "copy")
    assert kernel.max_dynamic_shared_size_bytes == 48 * 1024 - 128
    x, most = np.ones(32, np.float32), 60 * 1024
    arguments = (x, np.int32(most // 4))
    with pytest.raises(ValueError, match="set the kernel's max_dynamic_shared_size"):
        kernel((1,), (32,), arguments, shared_mem=most)
    kernel.max_dynamic_shared_size_bytes = most
    with memcheck():
        kernel((1,), (32,), arguments, shared_mem=most)
    with pytest.raises(ValueError, match=r"at most 101248, got 101249: .* take 128"):
        kernel.max_dynamic_shared_size_bytes = 101249


# ---- threads of a block --------------------------------------------------------------

BOUNDS = {
    ".maxntid 8, 4": (32, [(32,), (8, 4), (1,)], "at most 32 threads.* got", (3, 11)),
    ".reqntid 8, 4": (32, [(8, 4)], r"block must be \(8, 4, 1\).* got", (32,)),
    ".minnctapersm 2": (1024, [(1024,)], "block must be at least 1", (1025,)),
}
"""What a kernel declares, the most threads, blocks that it allows and a wrong block."""


@together("declared", BOUNDS)
def test_a_kernel_limits_the_threads_of_its_blocks(declared: str) -> None:
    most, allowed, message, wrong = BOUNDS[declared]
    text = f".target sm_80\n.visible .entry k() {declared} {{ ret; }}"
    kernel = RawModule(ptx=text).get_function("k")
    assert kernel.attributes["max_threads_per_block"] == most
    assert kernel.resident_blocks(most, 0) > 0 == kernel.resident_blocks(most + 1, 0)
    for block in allowed:
        kernel((1,), block, ())
    with pytest.raises(ValueError, match=message):
        kernel((1,), wrong, ())


# ---- modules -------------------------------------------------------------------------


def test_kernels_of_a_module_share_its_variables() -> None:
    module = RawModule(MODULE, name_expressions=["apply<float>"])
    weights = module.get_global("weights").view(np.float32)
    np.testing.assert_array_equal(weights, [1, 2])
    out = np.zeros(2, np.int32)
    for kernel, dtype in (("apply<float>", np.float32), ("apply<double>", np.float64)):
        weights[:] = 3, 4
        x = np.arange(4, dtype=dtype)
        module.get_function(kernel)((1,), (4,), (x,))
        np.testing.assert_array_equal(x, 3 * np.arange(4) + 4)
    module.get_function("read")((1,), (1,), (out,))
    assert out.tolist() == [2, 7]
    assert module.get_function("read") is module.get_function("read")


def test_checks_and_profiles_keep_the_variables() -> None:
    module = RawModule(MODULE)
    apply = module.get_function("apply<float>")
    for context in (profile, memcheck):
        with context():
            apply((1,), (4,), (np.ones(4, np.float32),))
    assert module.get_global("launches").view(np.int32)[0] == 2


def test_two_modules_have_variables_of_their_own() -> None:
    first, second = RawModule(MODULE), RawModule(MODULE)
    first.get_global("launches")[:] = 1
    assert not second.get_global("launches").any()


# ---- PTX of other compilers ----------------------------------------------------------

PTX = """
.version 8.0
.target sm_80
.address_size 64

.visible .global .align 4 .u32 added = 5;

.visible .entry add(.param .u64 x, .param .u32 count) {
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [x];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    mul.wide.u32 %d2, %r2, 4;
    add.u64 %d3, %d1, %d2;
    ld.global.u32 %r3, [%d3];
    ld.global.u32 %r1, [added];
    add.u32 %r3, %r3, %r1;
    st.global.u32 [%d3], %r3;
    ret;
}
"""


def test_a_module_of_ptx(tmp_path: Path) -> None:
    (tmp_path / "add.ptx").write_text(PTX)
    for ptx in (PTX, tmp_path / "add.ptx"):
        module = RawModule(ptx=ptx)
        add, x = module.get_function("add"), np.arange(4, dtype=np.int32)
        with profile() as report:
            add((1,), (32,), (x, np.uint32(3)))
        assert x.tolist() == [5, 6, 7, 3]
        assert report.kernels[0].arrays["argument 1"].lanes == 6
        assert report.predict("H200").kernels[0].registers is None
        module.get_global("added").view(np.int32)[0] = 1
        add((1,), (32,), (x, np.uint32(3)))
        assert x.tolist() == [6, 7, 8, 3]
        assert add.attributes["num_regs"] == 32


# ---- errors --------------------------------------------------------------------------

TILE = """
template <int n> __global__ void f(float* x) {
    __shared__ float tile[n];
    tile[threadIdx.x] = 1;
    x[threadIdx.x] = tile[threadIdx.x];
}"""


def add(*arguments: Any) -> None:
    kernel = RawModule(ptx=PTX).get_function("add")
    kernel((1,), (32,), (np.arange(4, dtype=np.int32), *arguments))


ERRORS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: scaled("-O3"), CompileError, "unrecognized option -O3"),
    (lambda: RawKernel(SCALE, "missing"), CompileError, "does not compile"),
    (lambda: RawKernel(SCALE, "scale", (), "x"),
     ValueError, "backend must be 'nvrtc' or 'nvcc', got 'x'"),
    (lambda: RawKernel(SCALE, "scale", (), "nvrtc", True),
     ValueError, "translate_cucomplex must be False"),
    # A block has 48 KB: 12288 floats.
    (lambda: (RawKernel(TILE, "f<12288>"), RawKernel(TILE, "f<12289>")),
     CompileError, "f<12289>.* has 49156 bytes"),
    (lambda: RawModule(MODULE).get_global("other"),
     ValueError, "the module has no variable 'other'"),
    (lambda: RawModule("", ptx=PTX), ValueError, "either code or ptx"),
    (lambda: add(np.uint32(5)), KernelError, "PTX:19: reads element 4 of argument 1"),
    (lambda: add(np.int64(3)), TypeError, "argument 2 of add must be .* of 4 bytes"),
    (lambda: add(), TypeError, "must have 2 arguments .*, got 1"),
    (lambda: RawModule(ptx=PTX).get_function("subtract"),
     CompileError, "must be a kernel of the source: add"),
    (lambda: RawModule(ptx=PTX.replace("wide", "wise")).get_function("add"),
     CompileError, "add: PTX line 17: "),
]  # fmt: skip


@together(("call", "error", "message"), ERRORS)
def test_errors_say_what_is_wrong(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_strong_accesses_to_vectors_are_whole() -> None:
    """Blocks that run at the same time pass a value with its flag, as in CUB."""
    source = r"""
    extern "C" __global__ void pass(uint4* word, int* torn, int n) {
        for (int k = 1; k <= n; ++k) {
            uint4 x;
            if (blockIdx.x == 0)
                asm volatile("st.volatile.global.v4.u32 [%0], {%1, %1, %1, %1};"
                             :: "l"(word + threadIdx.x), "r"(k) : "memory");
            else
                asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                             : "l"(word + threadIdx.x));
            if (blockIdx.x && (x.x != x.y || x.y != x.z || x.z != x.w)) *torn = 1;
        }
    }
    """
    torn = np.zeros(1, np.int32)
    arguments = (np.zeros((32, 4), np.uint32), torn, np.int32(20_000))
    RawKernel(source, "pass")((2,), (32,), arguments)
    assert torn[0] == 0
