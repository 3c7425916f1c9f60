// y[i] = map(x[i]): a thread to an element. Reads and writes n elements.
//
// For what cannot take the map with its own reading; see reduce.cu.

#include "monoid.cuh"
#include "thread.cuh"

template <class Map>
__global__ void map_elements(const typename Map::Input* x, long long size, typename Map::Value* y) {
    const long long i = thread_of_grid();
    if (i < size) y[i] = Map()(x[i]);
}
