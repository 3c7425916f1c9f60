// No fault: the results of CUDA's functions, one row of `out` for each.

__device__ int* row(int* out, int number) {
    return out + number * 32 + threadIdx.x;
}

/// For one warp. `float_out` has two rows.
__global__ void functions(int* out, float* float_out) {
    const unsigned all = 0xffffffffu;
    const int lane = threadIdx.x;
    *row(out, 0) = __shfl_sync(all, lane, lane + 5);
    *row(out, 1) = __shfl_sync(all, lane, 3, 8);
    *row(out, 2) = __shfl_up_sync(all, lane, 3);
    *row(out, 3) = __shfl_up_sync(all, lane, 3, 8);
    *row(out, 4) = __shfl_down_sync(all, lane, 3);
    *row(out, 5) = __shfl_down_sync(all, lane, 3, 8);
    *row(out, 6) = __shfl_xor_sync(all, lane, 5);
    *row(out, 7) = __shfl_xor_sync(all, lane, 12, 8);
    *row(out, 8) = static_cast<int>(__shfl_xor_sync(all, 1LL << lane, 1) >> (lane ^ 1));
    *row(out, 9) = static_cast<int>(__ballot_sync(all, lane % 3 == 0));
    *row(out, 10) = __any_sync(all, lane == 7) + 2 * __any_sync(all, lane > 31);
    *row(out, 11) = __all_sync(all, lane != 7) + 2 * __all_sync(all, lane < 32);
    *row(out, 12) = __syncthreads_or(lane == 7) + 2 * __syncthreads_or(lane > 31);
    *row(out, 13) = __syncthreads_and(lane != 7) + 2 * __syncthreads_and(lane < 32);
    *row(out, 14) = __popc(lane) + __popcll(1LL << lane);
    *row(out, 15) = __ffs(lane) + 100 * __ffsll(1LL << lane);
    *row(out, 16) = __clz(lane) + 100 * __clzll(lane);
    *row(out, 17) = static_cast<int>(__brev(1u << lane) >> (31 - lane));
    *row(out, 18) = max(lane, 7) - min(lane, 7) + static_cast<int>(max(1.5f, 2.5));
    *row(out, 19) = __float_as_int(__int_as_float(lane)) + warpSize;

    __shared__ int counter, largest, bits, chosen;
    if (lane == 0) counter = largest = bits = chosen = 0;
    __syncwarp();
    const int ticket = atomicAdd(&counter, 1);
    atomicMax(&largest, lane);
    atomicOr(&bits, 1 << lane);
    const bool first = atomicCAS(&chosen, 0, 1) == 0;
    *row(out, 20) = __popc(__ballot_sync(all, first));
    *row(out, 21) = counter + 100 * largest;
    *row(out, 22) = bits;
    unsigned tickets = 1u << ticket;
    for (int distance = 16; distance > 0; distance /= 2)
        tickets |= __shfl_xor_sync(all, tickets, distance);
    *row(out, 23) = static_cast<int>(tickets);

    float_out[lane] = hypot(3.0f * lane, 4.0f * lane) + rsqrt(0.25f);
    float_out[32 + lane] = ldexp(fabs(-1.0f), lane % 8) + fmax(1.0f, nanf("")) - isnan(0.0f);
}
