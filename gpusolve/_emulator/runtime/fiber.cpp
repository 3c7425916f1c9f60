#include "fiber.h"

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)

// A jump, not `ret`: the processor predicts a return from the preceding calls, and those were
// made on another stack.
__asm__(R"(
    .text
    .globl emulator_switch
    .hidden emulator_switch
    .type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmpq *%rcx
    .size emulator_switch, . - emulator_switch
)");

namespace {
// Six registers, the address to jump to, and a zero in place of the entry function's return
// address, where a debugger's backtrace ends.
constexpr std::size_t frame_words = 8;
constexpr std::size_t entry_word = 6;
}  // namespace

#elif defined(__aarch64__)

__asm__(R"(
    .text
    .globl emulator_switch
    .hidden emulator_switch
    .type emulator_switch, %function
emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size emulator_switch, . - emulator_switch
)");

namespace {
// Twelve general registers, of which x30 is the target of `ret`, and eight for floating point.
constexpr std::size_t frame_words = 20;
constexpr std::size_t entry_word = 11;
}  // namespace

#else
#error "the emulator switches stacks on x86-64 and aarch64 only"
#endif

namespace emulator {

void* new_stack(void* top, void (*entry)()) {
    auto* frame = static_cast<std::uintptr_t*>(top) - frame_words;
    for (std::size_t word = 0; word < frame_words; ++word) frame[word] = 0;
    frame[entry_word] = reinterpret_cast<std::uintptr_t>(entry);
    return frame;
}

}  // namespace emulator
