// The header that precedes every kernel. It is precompiled, because parsing it takes half of
// the compile time of most kernels.

#pragma once

#include "cuda_language.h"
#include "kernel_entry.h"
