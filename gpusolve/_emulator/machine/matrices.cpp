// Products of matrices by the lanes of a warp: mma, ldmatrix and wmma.

#include "table.h"

namespace machine {

namespace {

/// float32 of which 10 bits of the fraction count.
struct Tf32 {
    u32 bits;
    operator float() const { return std::bit_cast<float>(bits & ~0x1fffu); }
};

/// Matrices of 8 x 8 elements of 16 bits in shared memory. Lane 8 m + r has the address of row r of
/// matrix m; lane 4 r + c gets columns 2 c and 2 c + 1 of row r of each, or of its transpose.
void load_matrices(Warp& w, const Inst& i) {
    if (!w.resolve(i, i.address[0], Space::shared, 16, false)) return w.split(i);
    for (int m = 0; m < i.count - 1; ++m) {
        u32 values[LANES];
        for (int l = 0; l < LANES; ++l) {
            const auto value = [&](int row, int column) -> u32 {
                if (i.mode) std::swap(row, column);
                return reinterpret_cast<const u16*>(w.host[8 * m + row])[column];
            };
            values[l] = value(l / 4, l % 4 * 2) | value(l / 4, l % 4 * 2 + 1) << 16;
        }
        assign(w, i.op[m], values);
    }
}

/// A matrix in the registers of a warp. A place gives the number of element e of a lane, row by
/// row.
template <class T, int rows, int columns, int registers, auto place>
struct Tile {
    static constexpr int size = registers;
    static constexpr int per_register = std::max<int>(4, sizeof(T)) / sizeof(T);
    static constexpr int count = per_register * registers;
    static constexpr char word = sizeof(T) == 8 ? '8' : '4';

    static int number(int l, int e) { return place(l, e) % (rows * columns); }
    static T& element(const Warp& w, const Inst& i, int first, int l, int e) {
        return w.at<T>(i.op[first + e / per_register])[per_register * l + e % per_register];
    }

    /// Load the registers from memory, or store them. The last operand is the distance of rows, or
    /// of columns, in elements.
    template <bool is_store, bool by_columns>
    static void move(Warp& w, const Inst& i) {
        w.locate(i, i.address[0]);
        u64 start[LANES];
        std::copy_n(w.address, LANES, start);
        const u32* const distance = w.at<u32>(i.op[registers + 1]);
        for (int e = 0; e < count; ++e) {
            for (int l = 0; l < LANES; ++l) {
                const u64 row = number(l, e) / columns, column = number(l, e) % columns;
                const u64 at = by_columns ? column * distance[l] + row : row * distance[l] + column;
                w.address[l] = start[l] + at * sizeof(T);
            }
            if (!w.reach(i, i.space, sizeof(T), is_store))
                w.fail(i, lowest(w.mask), "has lanes with a matrix in different kinds of memory");
            for (int l = 0; l < LANES; ++l) {
                T* const memory = reinterpret_cast<T*>(w.host[l]);
                T& own = element(w, i, is_store, l, e);
                is_store ? * memory = own : own = *memory;
            }
        }
    }

    template <bool is_store, bool by_columns = false>
    static void add_move(Table& t, const std::string& name, const std::string& type) {
        const std::string values(registers, word);
        Row& row = t.add("wmma." + name + (by_columns ? ".sync.col." : ".sync.row.") + type,
                         {collective, MATRIX, is_store ? ":a" + values + "4" : values + ":a4",
                          Family(ACCESS | CONTROL), 0, sizeof(T), is_store ? WRITES : READS});
        row.inner = move<is_store, by_columns>;
        row.name = "wmma";
        if constexpr (!by_columns) add_move<is_store, true>(t, name, type);
    }
};

/// D = A B + C, of M x N elements.
template <class A, class B, class C, class D, class Sum, int M, int N, int K>
void multiply_tiles(Warp& w, const Inst& i) {
    Sum a[M * K], b[K * N], c[M * N];
    const auto load = [&]<class T>(const T*, int first, int l, Sum* values) {
        for (int e = 0; e < T::count; ++e) values[T::number(l, e)] = T::element(w, i, first, l, e);
    };
    for (int l = 0; l < LANES; ++l) {
        load(static_cast<A*>(nullptr), D::size, l, a);
        load(static_cast<B*>(nullptr), D::size + A::size, l, b);
        load(static_cast<C*>(nullptr), D::size + A::size + B::size, l, c);
    }
    for (int row = 0; row < M; ++row)
        for (int column = 0; column < N; ++column)
            for (int k = 0; k < K; ++k) c[row * N + column] += a[row * K + k] * b[k * N + column];
    for (int l = 0; l < LANES; ++l)
        for (int e = 0; e < D::count; ++e) D::element(w, i, 0, l, e) = c[D::number(l, e)];
}

/// The product of tiles; `shape` is what the opcode says before the types.
template <class A, class B, class C, class D, class Sum, int M, int N, int K>
void add_product(Table& t, const std::string& shape, const std::string& types, const char* name) {
    const std::string values = std::string(D::size, D::word) + ":" +
                               std::string(A::size + B::size, A::word) +
                               std::string(C::size, C::word);
    Row& row = t.add(shape + types, {collective, MATRIX, values, Family(CONTROL | ARITHMETIC)});
    row.inner = multiply_tiles<A, B, C, D, Sum, M, N, K>;
    row.name = name;
}

/// mma: products of M x K and K x 8 elements. With lane 4 g + t and E elements in a register,
/// element e of register r is
///
/// - of A: in row g + 8 (r mod 2), or r mod 1 for M = 8, and column E t + 4 E (r / 2) + e;
/// - of B: in row E t + 4 E r + e, and column g;
/// - of C and D, counted through all registers: in row g + 8 (e / 2), and column 2 t + e mod 2.
template <class T, class C, int M, int K>
void add_mma(Table& t, const std::string& type, const std::string& sum) {
    constexpr int E = std::max<int>(4, sizeof(T)) / sizeof(T), H = M / 8;
    constexpr auto of_a = [](int l, int e) {
        const int r = e / E;
        return (l / 4 + 8 * (r % H)) * K + E * (l % 4) + 4 * E * (r / H) + e % E;
    };
    constexpr auto of_b = [](int l, int e) {
        return (E * (l % 4) + 4 * E * (e / E) + e % E) * 8 + l / 4;
    };
    constexpr auto of_c = [](int l, int e) {
        return (l / 4 + 8 * (e / 2)) * 8 + 2 * (l % 4) + e % 2;
    };
    using Sums = Tile<C, M, 8, M * 8 / 32 / (sizeof(C) == 2 ? 2 : 1), of_c>;
    using Sum = std::conditional_t<is_half<C>, float, C>;
    const std::string shape = "m" + std::to_string(M) + "n8k" + std::to_string(K);
    add_product<Tile<T, M, K, M * K / 32 / E, of_a>, Tile<T, K, 8, K * 8 / 32 / E, of_b>, Sums,
                Sums, Sum, M, 8, K>(t, "mma.sync.aligned." + shape + ".row.col.",
                                    sum + "." + type + "." + type + "." + sum, "mma.sync");
}

/// wmma leaves the order of elements open. Some matrices are there repeatedly.
template <int count>
constexpr auto in_order = [](int l, int e) { return l * count + e; };
template <class T, int rows, int columns, int registers>
using Wmma = Tile<T, rows, columns, registers,
                  in_order<registers * std::max<int>(4, sizeof(T)) / int{sizeof(T)}>>;

/// Products of tiles of this shape. A and B are in `as` and `bs` registers.
template <class T, class Sum, int M, int N, int K, int as, int bs>
void add_tiles(Table& t, const std::string& type) {
    const std::string shape =
        "m" + std::to_string(M) + "n" + std::to_string(N) + "k" + std::to_string(K) + ".";
    using A = Wmma<T, M, K, as>;
    using B = Wmma<T, K, N, bs>;
    A::template add_move<false>(t, "load.a", shape + type);
    B::template add_move<false>(t, "load.b", shape + type);
    const auto add = [&]<class C, class D>(const C*, const D*, const std::string& types) {
        for (const char* layouts : {"row.row.", "row.col.", "col.row.", "col.col."})
            add_product<A, B, C, D, Sum, M, N, K>(
                t, std::string("wmma.mma.sync.") + layouts + shape, types, "wmma");
    };
    const auto add_sums = [&]<class S>(const S*, const std::string& sum) {
        using C = Wmma<S, M, N, M * N / 32 * sizeof(S) / std::max<int>(4, sizeof(S))>;
        C::template add_move<false>(t, "load.c", shape + sum);
        C::template add_move<true>(t, "store.d", shape + sum);
        return static_cast<C*>(nullptr);
    };
    const std::string sum = name_of<Sum>();
    const auto* const c = add_sums(static_cast<Sum*>(nullptr), sum);
    if constexpr (std::is_same_v<T, Half>) {
        const auto* const half = add_sums(static_cast<Half*>(nullptr), "f16");
        add(c, c, "f32.f32");
        add(half, c, "f32.f16");
        add(c, half, "f16.f32");
        add(half, half, "f16.f16");
    } else {
        add(c, c, sum + "." + type + "." + type + "." + sum);
    }
}

/// The shapes for elements of 8 or 16 bits. A and B have the same elements in each.
template <class T, class Sum, int square, int wide, int narrow>
void add_tiles_of_three_shapes(Table& t) {
    const std::string type = name_of<T>();
    add_tiles<T, Sum, 16, 16, 16, square, square>(t, type);
    add_tiles<T, Sum, 32, 8, 16, wide, narrow>(t, type);
    add_tiles<T, Sum, 8, 32, 16, narrow, wide>(t, type);
}

}  // namespace

void add_matrices(Table& t) {
    add_mma<double, double, 8, 4>(t, "f64", "f64");
    add_mma<Half, float, 16, 8>(t, "f16", "f32");
    add_mma<Half, float, 16, 16>(t, "f16", "f32");
    add_mma<Half, Half, 16, 8>(t, "f16", "f16");
    add_mma<Half, Half, 16, 16>(t, "f16", "f16");
    add_mma<BHalf, float, 16, 8>(t, "bf16", "f32");
    add_mma<BHalf, float, 16, 16>(t, "bf16", "f32");
    add_mma<Tf32, float, 16, 4>(t, "tf32", "f32");
    add_mma<Tf32, float, 16, 8>(t, "tf32", "f32");
    add_mma<s8, s32, 16, 16>(t, "s8", "s32");
    add_mma<s8, s32, 16, 32>(t, "s8", "s32");
    add_mma<u8, s32, 16, 32>(t, "u8", "s32");
    for (const char* count : {"x1", "x2", "x4"})
        for (const u8 is_transposed : {0, 1}) {
            const std::string results(static_cast<std::size_t>(count[1] - '0'), '4');
            Row& row = t.add(std::string("ldmatrix.sync.m8n8.") + count +
                                 (is_transposed ? ".trans.b16" : ".b16"),
                             {collective, MATRIX, results + ":a", Family(ACCESS | CONTROL),
                              is_transposed, 0, READS});
            row.inner = load_matrices;
            row.name = "ldmatrix";
        }
    add_tiles_of_three_shapes<Half, float, 8, 8, 8>(t);
    add_tiles_of_three_shapes<BHalf, float, 4, 8, 2>(t);
    add_tiles_of_three_shapes<s8, s32, 2, 4, 1>(t);
    add_tiles_of_three_shapes<u8, s32, 2, 4, 1>(t);
    add_tiles<Tf32, float, 16, 16, 8, 4, 4>(t, "tf32");
    add_tiles<double, double, 8, 8, 4, 1, 1>(t, "f64");
}

}  // namespace machine
