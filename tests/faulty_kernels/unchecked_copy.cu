// Copy one element of x into one of y.
// Fault: does not check the indices.

template <class T>
__global__ void copy_element(const T* x, int from, T* y, int to) {
    y[to] = x[from];
}
