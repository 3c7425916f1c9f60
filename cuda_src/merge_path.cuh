// The merge path: two sorted sequences, A and B, merged step by step, cut into equal parts.
//
// Each step takes the smaller of the next elements of A and B; of two equal elements the element
// of A comes first. The path is never stored: `merge_path` finds by binary search how many
// elements of A the first steps take. So every tile, and every thread of a tile, finds its own
// part, and all parts have the same number of steps, for any elements.
//
// Source. O. Green, R. McColl, D. Bader, "GPU Merge Path: A GPU Merging Algorithm" (2012).

#pragma once

#include "thread.cuh"

/// The first i of [first, last) that does not satisfy the predicate; `last` if all do. Indices
/// that satisfy the predicate must come first, as for std::partition_point.
template <class Index, class Predicate>
__device__ __forceinline__ Index partition_point(Index first, Index last, Predicate predicate) {
    while (first < last) {
        const Index middle = first + (last - first) / 2;
        if (predicate(middle))
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/// How many of the first `steps` steps of the path take an element of `a`. `a` and `b` are
/// anything that is indexed like an array.
template <class A, class B, class Index>
__device__ __forceinline__ Index merge_path(const A& a, Index a_count, const B& b, Index b_count,
                                            Index steps) {
    return partition_point(steps > b_count ? steps - b_count : Index(0),
                           steps < a_count ? steps : a_count,
                           [&](Index i) { return a[i] <= b[steps - 1 - i]; });
}

/// splits[t] = merge_path after the first t tiles, for every t <= tiles; a thread for each.
template <class A, class B>
__device__ __forceinline__ void split_into_tiles(const A& a, long long a_count, const B& b,
                                                 long long b_count, int tile_size, long long tiles,
                                                 long long* splits) {
    const long long tile = thread_of_grid();
    if (tile > tiles) return;
    const long long step = tile * tile_size, steps = a_count + b_count;
    splits[tile] = merge_path(a, a_count, b, b_count, step < steps ? step : steps);
}

/// The part of the path in a tile: where it begins in A and in B, and how many elements
/// of each it takes.
struct MergeTile {
    long long a, b;
    int a_count, b_count;
};

/// Tile number `index` of a path of `steps` steps. Unless the sequences are known to be `sorted`,
/// tiles may overlap; overlapping tiles are empty.
template <int tile_size, bool sorted>
__device__ __forceinline__ MergeTile merge_tile(const long long* splits, long long index,
                                                long long steps) {
    const long long start = index * tile_size;
    const long long a = splits[index], a_count = splits[index + 1] - a;
    const int size = static_cast<int>(steps - start < tile_size ? steps - start : tile_size);
    if (!sorted && (a_count < 0 || a_count > size)) return {a, start - a, 0, 0};
    return {a, start - a, static_cast<int>(a_count), size - static_cast<int>(a_count)};
}
