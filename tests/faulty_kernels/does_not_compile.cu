// Fault: an undeclared name.

template <class T>
__global__ void misspelt(T* x) {
    x[threadIdxx.x] = 0;
}
