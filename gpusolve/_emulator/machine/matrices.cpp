// Products of matrices by the lanes of a warp: mma, ldmatrix and wmma.

#include "table.h"

namespace machine {

namespace {

/// float32 of which 10 bits of the fraction count.
struct Tf32 {
    u32 bits;
    operator float() const { return std::bit_cast<float>(bits & ~0x1fffu); }
};

/// D = A B + C, of M x 8 elements. Lane 4 g + t has in register r
///
/// - of A, with E elements in a register: row g + 8 (r mod 2), columns E t + 4 E (r / 2) on;
/// - of B: rows E t + 4 E r on, column g;
/// - of C and D: row g + 8 (r / 2), column 2 t + r mod 2; of pairs, row g + 8 r, columns 2 t on.
template <class T, class C, int M, int K>
struct Product {
    using Word = std::conditional_t<sizeof(T) == 8, u64, u32>;
    static constexpr int E = sizeof(Word) / sizeof(T), AS = M * K / 32 / E, BS = K * 8 / 32 / E;
    static constexpr bool is_packed = sizeof(C) == 2;
    static constexpr int CS = M * 8 / 32 / (is_packed ? 2 : 1);
    using Sum = std::conditional_t<is_half<C>, float, C>;

    static T element(const Warp& w, Place place, int lane, int k) {
        T parts[E];
        std::memcpy(parts, &w.at<Word>(place)[lane], sizeof(parts));
        return parts[k];
    }

    static void run(Warp& w, const Inst& i) {
        T a[M][K], b[K][8];
        Sum sums[M][8];
        C* results[M][8];
        for (int l = 0; l < LANES; ++l) {
            const int g = l / 4, t = l % 4;
            for (int r = 0; r < AS; ++r)
                for (int k = 0; k < E; ++k)
                    a[g + 8 * (r % (M / 8))][E * t + 4 * E * (r / (M / 8)) + k] =
                        element(w, i.op[CS + r], l, k);
            for (int r = 0; r < BS; ++r)
                for (int k = 0; k < E; ++k)
                    b[E * t + 4 * E * r + k][g] = element(w, i.op[CS + AS + r], l, k);
            for (int e = 0; e < M * 8 / 32; ++e) {
                const int row = g + 8 * (e / 2), column = 2 * t + e % 2, r = is_packed ? e / 2 : e;
                const int part = is_packed ? 2 * l + e % 2 : l;
                sums[row][column] = w.at<C>(i.op[CS + AS + BS + r])[part];
                results[row][column] = w.at<C>(i.op[r]) + part;
            }
        }
        for (int row = 0; row < M; ++row)
            for (int column = 0; column < 8; ++column) {
                Sum sum = sums[row][column];
                for (int k = 0; k < K; ++k)
                    sum += static_cast<Sum>(a[row][k]) * static_cast<Sum>(b[k][column]);
                *results[row][column] = sum;
            }
    }

    static void add(Table& t, const std::string& type, const std::string& sum) {
        const char word = letter<Word>(), c = is_packed ? '4' : letter<C>();
        Row& row =
            t.add("mma.sync.aligned.m" + std::to_string(M) + "n8k" + std::to_string(K) +
                      ".row.col." + sum + "." + type + "." + type + "." + sum,
                  {collective, MATRIX,
                   std::string(CS, c) + ":" + std::string(AS + BS, word) + std::string(CS, c)});
        row.inner = run;
        row.name = "mma.sync";
    }
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

/// A matrix in the registers of a warp, for wmma, which leaves the order of its elements open: here
/// element e of lane l is number `l * count + e`, row by row. Some matrices are there repeatedly.
template <class T, int rows, int columns, int registers>
struct Tile {
    static constexpr int size = registers;
    static constexpr int per_register = std::max<int>(4, sizeof(T)) / sizeof(T);
    static constexpr int count = per_register * registers;
    static constexpr char word = sizeof(T) == 8 ? '8' : '4';

    static int number(int l, int e) { return (l * count + e) % (rows * columns); }
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

/// Products of tiles of this shape. A and B are in `as` and `bs` registers.
template <class T, class Sum, int M, int N, int K, int as, int bs>
void add_tiles(Table& t, const std::string& type) {
    const std::string shape =
        "m" + std::to_string(M) + "n" + std::to_string(N) + "k" + std::to_string(K) + ".";
    using A = Tile<T, M, K, as>;
    using B = Tile<T, K, N, bs>;
    A::template add_move<false>(t, "load.a", shape + type);
    B::template add_move<false>(t, "load.b", shape + type);
    const auto add = [&]<class C, class D>(const C*, const D*, const std::string& types) {
        const std::string values = std::string(D::size, D::word) + ":" +
                                   std::string(as + bs, A::word) + std::string(C::size, C::word);
        for (const char* layouts : {"row.row.", "row.col.", "col.row.", "col.col."}) {
            Row& row = t.add(std::string("wmma.mma.sync.") + layouts + shape + types,
                             {collective, MATRIX, values, Family(CONTROL | ARITHMETIC)});
            row.inner = multiply_tiles<A, B, C, D, Sum, M, N, K>;
            row.name = "wmma";
        }
    };
    const auto add_sums = [&]<class S>(const S*, const std::string& sum) {
        using C = Tile<S, M, N, M * N / 32 * sizeof(S) / std::max<int>(4, sizeof(S))>;
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
    Product<double, double, 8, 4>::add(t, "f64", "f64");
    Product<Half, float, 16, 8>::add(t, "f16", "f32");
    Product<Half, float, 16, 16>::add(t, "f16", "f32");
    Product<Half, Half, 16, 8>::add(t, "f16", "f16");
    Product<Half, Half, 16, 16>::add(t, "f16", "f16");
    Product<BHalf, float, 16, 8>::add(t, "bf16", "f32");
    Product<BHalf, float, 16, 16>::add(t, "bf16", "f32");
    Product<Tf32, float, 16, 4>::add(t, "tf32", "f32");
    Product<Tf32, float, 16, 8>::add(t, "tf32", "f32");
    Product<s8, s32, 16, 16>::add(t, "s8", "s32");
    Product<s8, s32, 16, 32>::add(t, "s8", "s32");
    Product<u8, s32, 16, 32>::add(t, "u8", "s32");
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
