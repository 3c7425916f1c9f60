// Products of matrices by the lanes of a warp: mma and ldmatrix.

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
}

}  // namespace machine
