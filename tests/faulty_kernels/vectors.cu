// No fault: structures with CUDA's vector types, and arrays that are read as vectors.

struct Tagged {
    char tag;
    float4 value;
};

struct Sizes {
    char before;
    short2 small;
    double4 large;
};

__global__ void sizes(int* out) {
    const int found[] = {sizeof(Tagged),   alignof(Tagged),   sizeof(Sizes),   sizeof(float3),
                         alignof(float3),  alignof(uchar4),   alignof(int2),   alignof(double2),
                         alignof(double4), sizeof(longlong1), alignof(ushort4)};
    for (int i = 0; i < 11; ++i) out[i] = found[i];
}

__global__ void add(Tagged tagged, float4* x) {
    float4 sum = x[threadIdx.x];
    sum.x += tagged.value.x;
    sum.w += tagged.tag;
    x[threadIdx.x] = sum;
}

__global__ void double_pairs(float* x, int n) {
    float2* pairs = reinterpret_cast<float2*>(x);
    if (threadIdx.x < n / 2) {
        const float2 pair = pairs[threadIdx.x];
        pairs[threadIdx.x] = make_float2(2 * pair.x, 2 * pair.y);
    }
}
