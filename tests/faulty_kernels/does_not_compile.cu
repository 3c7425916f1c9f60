// Fault: a name that is not there.

template <class T>
__global__ void misspelt(T* x) {
    x[threadIdxx.x] = 0;
}
