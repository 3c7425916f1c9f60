// target[indices[i]] = values[i]: a parallel write, in place.
//
// A thread to a number; an element has `width` of them. Negative and too large indices are
// ignored. Of equal indices one wins, and which one is not defined. D(n) = 1, W(n) = n.
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
