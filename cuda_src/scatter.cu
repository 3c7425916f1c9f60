// target[indices[i]] = values[i]: a parallel write, in place.
//
// One thread per number; an element has `width` numbers. Indices out of range are ignored. If
// indices are equal, one of their values is written; it is undefined which. Depth 1, work n.
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019), "Scatter".

#include "thread.cuh"

template <class T>
__global__ void scatter(const long long* indices, const T* values, long long count, long long width,
                        T* target, long long length) {
    const long long i = thread_of_grid();
    if (i >= count * width) return;
    const long long element = i / width;
    const long long index = indices[element];
    if (0 <= index && index < length) target[index * width + i - element * width] = values[i];
}
