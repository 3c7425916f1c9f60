// The properties of an object, which the package reads before it calls any other function.
//
// setup.py compiles this file for the oldest CPU of the machine, whatever the instruction
// set of the object: its functions run on every CPU.

#include "exported.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#endif

// The version of the C interface. A change of a function's arguments increases it, here
// and in gpusolve/_device/objects.py, so that an older object is not called.
constexpr int interface_version = 5;

GPUSOLVE_EXPORTED int gpusolve_interface() {
    return interface_version;
}

// The hash of the sources that the object was built from.
GPUSOLVE_EXPORTED const char* gpusolve_sources() {
    return GPUSOLVE_SOURCES;
}

// The instruction set that the object needs.
GPUSOLVE_EXPORTED const char* gpusolve_instruction_set() {
    return GPUSOLVE_INSTRUCTION_SET;
}

#ifdef GPUSOLVE_X86_64_V3

namespace {

// The registers that CPUID fills.
struct Features {
    unsigned a = 0, b = 0, c = 0, d = 0;

    explicit Features(unsigned leaf) { __get_cpuid_count(leaf, 0, &a, &b, &c, &d); }
};

constexpr bool has(unsigned found, unsigned needed) {
    return (found & needed) == needed;
}

// Whether the operating system keeps the 256-bit registers of each thread.
bool keeps_wide_registers() {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return has(low, 0b110);
}

}  // namespace

// Whether this CPU has x86-64-v3: AVX2, FMA, BMI1, BMI2, F16C, MOVBE and LZCNT.
GPUSOLVE_EXPORTED int gpusolve_supports() {
    const Features basic(1), more(7), extended(0x80000001);
    return has(basic.c, bit_AVX | bit_FMA | bit_F16C | bit_MOVBE | bit_OSXSAVE) &&
           keeps_wide_registers() && has(more.b, bit_AVX2 | bit_BMI | bit_BMI2) &&
           has(extended.c, bit_LZCNT);
}

#else

GPUSOLVE_EXPORTED int gpusolve_supports() {
    return 1;
}

#endif
