// Declares a function of the object's C interface. All other names stay inside the object.

#pragma once

#if defined(_WIN32)
#define GPUSOLVE_EXPORTED extern "C" __declspec(dllexport)
#else
#define GPUSOLVE_EXPORTED extern "C" __attribute__((visibility("default")))
#endif

/// The values that the functions of the C interface return.
enum Returned : int { finished = 0, out_of_memory = 1 };
