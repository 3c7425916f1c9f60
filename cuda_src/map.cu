// y[i] = map(x[i]), one thread per element. Reads and writes n elements.
//
// For kernels that cannot apply the map to the elements that they read, as reduce.cu does.

#include "monoid.cuh"
#include "thread.cuh"

template <class Map>
__global__ void map_elements(const typename Map::Input* x, long long size, typename Map::Value* y) {
    const long long i = thread_of_grid();
    if (i < size) y[i] = Map()(x[i]);
}
