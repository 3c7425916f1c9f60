// Teams: the threads that solve one problem together.
//
// A kernel that is a template over the team is written once for problems of every size: a team is
// some lanes of a warp, one block, or all blocks of a cooperative launch. A team consists of
// groups, which reduce without a barrier: the warps of a block, or the team itself if it is not
// larger than a warp.
//
// All members call the functions of a team in uniform control flow. What a member wrote before
// `sync` or `reduce` is visible to all members after it.
//
// The teams of a warp share its control flow, too: their shuffles are instructions of the whole
// warp. So a loop continues while `any` of the teams has a step to take, and a step that a team
// does not take has to leave its problem as it is.
//
// The teams of a GPU are in device_teams.cuh. A CPU has a team of one thread: cpu/serial_team.cuh.
//
// Memory. An array of a team is a `Vector` in memory. Where each lane has a few variables
// of a problem, an array by variable is a `LaneVector`: registers of the lanes.

#pragma once

#include "block.cuh"
#include "floating.cuh"

constexpr int alignment_of_arrays = 16;

/// An array of a team: a pointer, or an address in shared memory, as the compiler then knows.
template <class T, class Address = T*>
struct Vector {
    Address first;

    static __device__ __forceinline__ Vector at(T* pointer) {
        if constexpr (sizeof(Address) == sizeof(T*))
            return {pointer};
        else
            return {static_cast<Address>(__cvta_generic_to_shared(pointer))};
    }
    template <class Index>
    __device__ __forceinline__ T& operator[](Index i) const {
        if constexpr (sizeof(Address) == sizeof(T*))
            return first[i];
        else
            return static_cast<T*>(__cvta_shared_to_generic(first))[i];
    }
    /// Elements i and i + 1 of double; i is even.
    __device__ __forceinline__ double2& pair(int i) const {
        return reinterpret_cast<double2&>((*this)[i]);
    }
    /// Element i, which is the same for all members.
    __device__ __forceinline__ T of(int i) const { return (*this)[i]; }
    __device__ __forceinline__ Vector from(long long i) const {
        if constexpr (sizeof(Address) == sizeof(T*))
            return {first + i};
        else
            return {first + static_cast<Address>(i * sizeof(T))};
    }
    __device__ __forceinline__ void forget() const {}
};
template <class T>
using NearVector = Vector<T, unsigned>;

template <class T, class Team>
struct LaneVector;

/// An array in memory of the team whose arrays by variable are `Reals`.
template <class Reals, class T = double>
struct ArrayLike {
    using Type = Vector<T>;
};
template <class T>
struct ArrayLike<NearVector<double>, T> {
    using Type = NearVector<T>;
};
template <class Team, class T>
struct ArrayLike<LaneVector<double, Team>, T> {
    using Type = NearVector<T>;
};

/// The number of a variable that this lane has, in its register `slot`.
template <int slot_>
struct OwnVariable {
    static constexpr int slot = slot_;
    int j;

    __device__ __forceinline__ operator int() const { return j; }
};

/// An array of a team of lanes: lane j % lanes has element j in its register j / lanes.
template <class T, class Team>
struct LaneVector {
    T own[Team::each];

    template <int slot>
    __device__ __forceinline__ T& operator[](OwnVariable<slot>) {
        return own[slot];
    }
    /// Element j, which is the same for all members.
    __device__ __forceinline__ T of(int j) const {
        constexpr unsigned size = Team::size();
        const unsigned index = j;
        const T value = in_slot(index / size);
        if constexpr (size == 1) return value;
        return __shfl_sync(whole_warp, value, index % size, size);
    }
    /// An element of this lane.
    template <int slot>
    __device__ __forceinline__ T of(OwnVariable<slot>) const {
        return own[slot];
    }

    /// The elements are not needed any more: without this, they would keep their registers until
    /// all of them are written.
    __device__ __forceinline__ void forget() {
#pragma unroll
        for (T& one : own) one = T(0);
    }

  private:
    /// A register is chosen from all: arrays in registers lack an address.
    template <int slot = 0>
    __device__ __forceinline__ T in_slot(unsigned wanted) const {
        const T here = own[slot];
        if constexpr (slot + 1 == Team::each) return here;
        const T later = in_slot<(slot + 1) % Team::each>(wanted);
        return wanted == slot ? here : later;
    }
};

__device__ __forceinline__ long long aligned_bytes(long long bytes) {
    return (bytes + alignment_of_arrays - 1) / alignment_of_arrays * alignment_of_arrays;
}

/// Memory of a team, from which arrays are allocated in order. The compiler knows the addresses
/// that follow arrays of known sizes.
struct TeamMemory {
    unsigned char* first;
    long long used = 0;

    template <class T, class Address>
    __device__ void take(Vector<T, Address>& vector, long long count) {
        const long long before = used / static_cast<long long>(sizeof(T));
        vector = Vector<T, Address>::at(reinterpret_cast<T*>(first)).from(before);
        used += aligned_bytes(count * static_cast<long long>(sizeof(T)));
    }
    /// Registers need no memory.
    template <class T, class Team>
    __device__ void take(LaneVector<T, Team>& vector, long long) {
        vector.forget();
    }
};

/// body(i) for every i < count; a member has every i that is its rank modulo the team's size. Not
/// unrolled: kernels of many such loops would have much code.
template <class Team, class Body>
__device__ __forceinline__ void for_each(int count, Body body) {
#pragma unroll 1
    for (int i = Team::rank(); i < count; i += Team::size()) body(i);
}

/// Two numbers that are multiplied.
struct Pair {
    double a, b;
};

/// The sums of two quantities.
struct Two {
    double a, b;
};
struct AddTwo {
    static __device__ __forceinline__ Two identity() { return {0, 0}; }
    __device__ __forceinline__ Two operator()(Two x, Two y) const { return {x.a + y.a, x.b + y.b}; }
};
__device__ __forceinline__ Two shuffle_xor(Two x, int distance) {
    return {shuffle_xor(x.a, distance), shuffle_xor(x.b, distance)};
}

/// Two sums and a maximum: blocks reduce them together, with the barriers of one reduction.
struct SumsAndLargest {
    Two sums;
    Located<double> largest;
};
struct AddTwoAndArgMax {
    static __device__ __forceinline__ SumsAndLargest identity() {
        return {AddTwo::identity(), ArgMax<double>::identity()};
    }
    __device__ __forceinline__ SumsAndLargest operator()(const SumsAndLargest& x,
                                                         const SumsAndLargest& y) const {
        return {AddTwo()(x.sums, y.sums), ArgMax<double>()(x.largest, y.largest)};
    }
};
__device__ __forceinline__ SumsAndLargest warp_reduce(const SumsAndLargest& x,
                                                      Called<AddTwoAndArgMax>,
                                                      int width = warp_threads) {
    return {warp_reduce(x.sums, Called<AddTwo>(), width),
            warp_reduce(x.largest, Called<ArgMax<double>>(), width)};
}

/// use(i, ahead, load(i, ahead)) for the elements i + ahead = first, first + step, ... below `end`.
/// Eight elements are loaded before the first of them is used, then four, two and one: a thread
/// waits once for the memory of all. `ahead` is known to the compiler, and less than `most` times
/// the step.
template <int step, int most = 4, class Load, class Use>
__device__ __forceinline__ void load_ahead(int first, int end, Load load, Use use) {
    int i = first;
#pragma unroll 1
    for (; i + (most - 1) * step < end; i += most * step) {
        decltype(load(0, 0)) loaded[most];
#pragma unroll
        for (int q = 0; q < most; ++q) loaded[q] = load(i, q * step);
#pragma unroll
        for (int q = 0; q < most; ++q) use(i, q * step, loaded[q]);
    }
    if constexpr (most > 1) load_ahead<step, most / 2>(i, end, load, use);
}

/// body(j) for every variable j < count: the same for arrays that may be in registers.
template <class Team, int slot = 0, class Body>
__device__ __forceinline__ void for_each_variable(int count, Body body) {
    if constexpr (!Team::is_small) {
        for_each<Team>(count, body);
    } else if constexpr (slot < Team::each) {
        const OwnVariable<slot> own{Team::rank() + slot * Team::size()};
        if (own < count) body(own);
        for_each_variable<Team, slot + 1>(count, body);
    }
}

/// out[j] = value(j) for every variable j < count.
template <class Team, class Reals, class Value>
__device__ __forceinline__ void map_variables(const Team&, Reals& out, int count, Value value) {
    for_each_variable<Team>(count, [&](auto j) { out[j] = value(j); });
}

/// out[i] = 0 for variable j, and for every variable i < count that a condition holds for.
template <class Team, class Reals, class Condition>
__device__ __forceinline__ void clear_variables(const Team&, Reals& out, int count, int j,
                                                Condition holds) {
    for_each_variable<Team>(count, [&](auto i) {
        if (i == j || holds(i)) out[i] = 0;
    });
}

/// This thread's variable of the largest element above `least`. Or, unless it is
/// chosen `by_value`, the first variable after j whose element is not NaN.
template <class Team, class Reals>
__device__ __forceinline__ Located<double> find_variable(const Team&, Reals& values, int count,
                                                         bool by_value, double least, int j) {
    Located<double> found = ArgMax<double>::identity();
    for_each_variable<Team>(count, [&](auto i) {
        const double value = values[i], order = by_value ? value : -i;
        const bool may_be = by_value ? value > least : i > j && value == value;
        if (may_be) found = ArgMax<double>()(found, {order, i});
    });
    return found;
}

/// body(j) by the member that has variable j.
template <class Team, class Body>
__device__ __forceinline__ void by_owner(int j, Body body) {
    if constexpr (Team::is_small) {
        for_each_variable<Team>(Team::width, [&](auto own) {
            if (own == j) body(own);
        });
    } else {
        int owner = j;  // a remainder takes 20 instructions
        while (owner >= Team::size()) owner -= Team::size();
        if (owner == Team::rank()) body(j);
    }
}
