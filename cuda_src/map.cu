// y[i] = map(x[i]), or map(x[i], more[i]...) of several arrays; a thread per element. Reads and
// writes each element once.
//
//     map : (a -> b) -> [n]a -> [n]b
//     map(f, map(g, x)) = map(f . g, x)              one launch, and half the bytes
//
// Source. Oancea & Henriksen, "Basic Blocks of Data-Parallel Programming" (2019), "Map Fusion".
// reduce.cu, scan.cu and partition.cu apply a map to the elements that they read; this kernel
// is for maps alone, and for kernels that cannot apply a map.

#include "monoid.cuh"
#include "thread.cuh"

template <class Map, class... More>
__global__ void map_elements(const typename Map::Input* x, long long size, typename Map::Value* y,
                             const More*... more) {
    const long long i = thread_of_grid();
    if (i < size) y[i] = Map()(x[i], more[i]...);
}
