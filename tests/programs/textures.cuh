// Prints samples of an image of 4 rows and 8 columns: linear between its texels, texels of bytes
// that are repeated, and elements of linear memory, which a kernel of a header has doubled.

#pragma once

#include <cstdio>
#include <vector>

#include "samples.cuh"

namespace textures {

constexpr int rows = 4, columns = 8, points = 40;

__global__ void sample(cudaTextureObject_t image, cudaTextureObject_t bytes,
                       cudaTextureObject_t line, float* out) {
    const int i = threadIdx.x;
    const float x = -1 + 0.25f * i, y = 5 - 0.125f * i;
    out[i] = tex2D<float>(image, x, y);
    out[points + i] = tex1D<float>(bytes, x / columns);
    out[2 * points + i] = tex1Dfetch<float>(line, i);
}

inline int run() {
    std::vector<float> pixels;
    std::vector<unsigned char> levels;
    for (int i = 0; i < rows * columns; ++i) pixels.push_back(i * i % 37);
    for (int i = 0; i < columns; ++i) levels.push_back(30 * i);

    const cudaChannelFormatDesc of_float = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    cudaMallocArray(&array, &of_float, columns, rows);
    const size_t row_bytes = columns * sizeof(float);
    cudaMemcpy2DToArray(array, 0, 0, pixels.data(), row_bytes, row_bytes, rows,
                        cudaMemcpyHostToDevice);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc mode = {};
    mode.addressMode[0] = mode.addressMode[1] = cudaAddressModeClamp;
    mode.filterMode = cudaFilterModeLinear;
    cudaTextureObject_t image, bytes, line;
    cudaCreateTextureObject(&image, &resource, &mode, nullptr);

    unsigned char* level;
    cudaMalloc(&level, columns);
    cudaMemcpy(level, levels.data(), columns, cudaMemcpyHostToDevice);
    resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {level, cudaCreateChannelDesc<unsigned char>(), columns};
    mode = {};
    mode.addressMode[0] = cudaAddressModeWrap;
    mode.readMode = cudaReadModeNormalizedFloat;
    mode.normalizedCoords = 1;
    cudaCreateTextureObject(&bytes, &resource, &mode, nullptr);

    float *numbers, *out;
    std::vector<float> host(3 * points);
    for (int i = 0; i < points; ++i) host[i] = i;
    cudaMalloc(&numbers, points * sizeof(float));
    cudaMalloc(&out, host.size() * sizeof(float));
    cudaMemcpy(numbers, host.data(), points * sizeof(float), cudaMemcpyHostToDevice);
    apply_to_all(numbers, points);
    resource.res.linear = {numbers, of_float, points * sizeof(float)};
    mode = {};
    cudaCreateTextureObject(&line, &resource, &mode, nullptr);
    sample<<<1, points>>>(image, bytes, line, out);
    cudaMemcpy(host.data(), out, host.size() * sizeof(float), cudaMemcpyDeviceToHost);
    for (float value : host) std::printf("%.9g\n", value);
    cudaDestroyTextureObject(image);
    cudaFreeArray(array);
    return 0;
}

}  // namespace textures
