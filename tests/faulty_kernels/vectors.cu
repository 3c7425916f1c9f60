// No fault: a structure with one of CUDA's vector types.

struct Tagged {
    char tag;
    float4 value;
};

__global__ void add(Tagged tagged, float4* x) {
    float4 sum = x[threadIdx.x];
    sum.x += tagged.value.x;
    sum.w += tagged.tag;
    x[threadIdx.x] = sum;
}
