// Copy one element of x into one of y.
// Fault: believes whatever places it is given.

template <class T>
__global__ void copy_element(const T* x, int from, T* y, int to) {
    y[to] = x[from];
}
