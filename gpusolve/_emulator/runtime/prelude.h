// What stands in front of every kernel. It is compiled once: parsing it would take half of the
// time of most kernels.

#pragma once

#include "cuda_language.h"
#include "kernel_entry.h"
