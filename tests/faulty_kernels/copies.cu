// Copy and set memory by C's functions.
// Fault: all threads write the same elements.

#include <string.h>

struct Record {
    float values[9];
};

__global__ void copy_record(Record* x, const Record* y) {
    std::memcpy(x, y + threadIdx.x, sizeof(Record));
}

__global__ void move_record(Record* x, const Record* y) {
    memmove(x, y + threadIdx.x, sizeof(Record));
}

__global__ void clear_record(Record* x, const Record* y) {
    memset(x, 0, sizeof(Record));
}

/// No fault: each thread copies a record.
__global__ void copy_own(Record* x, const Record* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    memcpy(x + i, y + i, sizeof(Record));
}
