// No fault: blocks wait for the one before them, and threads for another of their block.

__global__ void in_turn(int* turn, int* order) {
    __shared__ int arrived;
    if (threadIdx.x == 0) {
        while (atomicAdd(turn, 0) != static_cast<int>(blockIdx.x)) __nanosleep(10);
        order[blockIdx.x] = *turn;
        arrived = 0;
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x + 1 == blockDim.x) atomicExch(&arrived, 1);
    if (threadIdx.x == 0) {
        while (atomicAdd(&arrived, 0) == 0) {
        }
        atomicAdd(turn, 1);
    }
}
