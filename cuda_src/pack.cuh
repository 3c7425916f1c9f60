// Several neighbouring elements that one instruction reads or writes: 16 bytes if their type
// allows it.

#pragma once

constexpr int pack_bytes = 16;

/// Elements of type T in a pack of 16 bytes; 1 if elements of T do not fill the pack exactly.
template <class T>
constexpr int pack_size =
    sizeof(T) < pack_bytes && pack_bytes % sizeof(T) == 0 ? pack_bytes / sizeof(T) : 1;

template <class T, int size = pack_size<T>>
struct alignas(size > 1 ? size * sizeof(T) : alignof(T)) Pack {
    T values[size];

    __device__ __forceinline__ void operator+=(const Pack& other) {
#pragma unroll
        for (int k = 0; k < size; ++k) values[k] += other.values[k];
    }
};

/// Whether a pack can be read from this address.
template <int size, class T>
__device__ __forceinline__ bool is_aligned(const T* from) {
    return size == 1 || reinterpret_cast<size_t>(from) % alignof(Pack<T, size>) == 0;
}

template <int size, class T>
__device__ __forceinline__ Pack<T, size> read_pack(const T* from) {
    return *reinterpret_cast<const Pack<T, size>*>(from);
}

/// Write a pack, 16 bytes at a time. NVRTC makes an assignment of a pack of several elements into a
/// store of each element, which writes a part of each sector.
template <int size, class T>
__device__ __forceinline__ void write_pack(T* to, const Pack<T, size>& pack) {
    if constexpr (size == 1) {
        *to = pack.values[0];
    } else {
        constexpr int words = sizeof(pack) / sizeof(int4);
        static_assert(words * sizeof(int4) == sizeof(pack), "a pack is whole words");
#pragma unroll
        for (int k = 0; k < words; ++k)
            __stwb(reinterpret_cast<int4*>(to) + k, reinterpret_cast<const int4*>(&pack)[k]);
    }
}

/// Write an element. Of 16 bytes, it is one store if both addresses allow it: NVRTC would store
/// each of its numbers. `element` is at such an address.
template <class T>
__device__ __forceinline__ void write_element(T* to, const T& element) {
    constexpr int words = pack_size<int>;
    int* const first = reinterpret_cast<int*>(to);
    if (sizeof(T) == pack_bytes && is_aligned<words>(first))
        write_pack(first, reinterpret_cast<const Pack<int, words>&>(element));
    else
        *to = element;
}
