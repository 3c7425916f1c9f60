// Copy one element of x into one of y; the arrays are in a struct that is passed by value.
// Faults: `copy_element` does not check the indices; all threads of `copy_rank` write one element.

template <class T>
struct Copy {
    const T* x;
    int source, target;
    T* y;
    double factor;
    int count;
};

template <class T>
__global__ void copy_element(const __grid_constant__ Copy<T> copy) {
    copy.y[copy.target] = copy.x[copy.source] * static_cast<T>(copy.factor);
}

template <class T>
__global__ void copy_rank(const Copy<T> copy, const T* more, int shift) {
    if (static_cast<int>(threadIdx.x) < copy.count) copy.y[copy.target + shift] = more[threadIdx.x];
}
