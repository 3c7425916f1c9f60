// Products with design matrices whose rows have few values, for boosting on a CPU.
//
// A design is the sum of its parts. A row of a part has `width` values, of the functions
// first + offsets[0], first + offsets[1], ... They are stored; or they are the B-splines of an
// equidistant grid, and are computed from the covariate in every pass: 8 bytes of a row are then
// read instead of 36, and nothing else is stored.
//
// Sums. Rows with the same first function, a cell, have sums of their own, which are added to the
// functions at the end. Otherwise a row would wait for the sums that the row before has just
// written, at another offset. For the same reason neighbouring rows have different sums.
//

#pragma once

#include <cstdlib>

/// Some values of each row, see DesignPart and SplinePart in rows.py.
struct CompactPart {
    const int* first;      // n; null: splines
    const void* values;    // n x width; of splines n, the covariate
    const int* offsets;    // width, ascending from 0
    const double* shapes;  // of splines, width x width: the factor of t^i in function j of a cell,
                           // for t from -1/2 to 1/2
    double lower, scale;   // of splines: the begin of the range, and cells per unit
    int width, cells;      // first functions are 0 to cells - 1
    int is_float, unused;  // whether values are float, else double
};

/// The designs of all learners.
struct CompactDesigns {
    const CompactPart* parts;
    const long long* begin_part;      // learners + 1
    const long long* begin_function;  // learners + 1: their functions, counted over all learners

    long long functions_of(long long learner) const {
        return begin_function[learner + 1] - begin_function[learner];
    }
};

constexpr int block_rows = 128;  // rows whose values are computed together
constexpr int most_values = 32;  // of a row in a part: MAX_WIDTH in rows.py
constexpr int copies = 2;        // sums for even and for odd rows

/// The values of a block of rows.
struct RowBlock {
    int cell[block_rows];
    double values[block_rows * most_values];  // row by row
};

/// The splines of rows at t in their cells, by Horner's rule for all functions of a row together.
template <int width>
void compute_splines(const CompactPart& part, const double* t, int rows, double* values) {
    double shapes[width * width];
    for (int k = 0; k < width * width; ++k) shapes[k] = part.shapes[k];
    for (int i = 0; i < rows; ++i, values += width) {
        double splines[width];
        for (int k = 0; k < width; ++k) splines[k] = shapes[(width - 1) * width + k];
        for (int power = width - 2; power >= 0; --power)
            for (int k = 0; k < width; ++k)
                splines[k] = splines[k] * t[i] + shapes[power * width + k];
        for (int k = 0; k < width; ++k) values[k] = splines[k];
    }
}

/// The cell of a covariate, and its place there, from -1/2 to 1/2.
struct SplinePlace {
    int cell;
    double t;
};

template <class T>
SplinePlace spline_place(const CompactPart& part, long long row) {
    const double x = static_cast<double>(static_cast<const T*>(part.values)[row]);
    const double cells = part.cells, last = part.cells - 1,
                 position = (x - part.lower) * part.scale;
    const double below = position < 0 ? 0 : position > cells ? cells : position;
    const int floored = static_cast<int>(below < last ? below : last);
    return {floored, below - floored - 0.5};
}

template <class T>
void load_splines(const CompactPart& part, long long begin, int rows, RowBlock& block) {
    double t[block_rows];
    for (int i = 0; i < rows; ++i) {
        const SplinePlace place = spline_place<T>(part, begin + i);
        block.cell[i] = place.cell;
        t[i] = place.t;
    }
    double* const values = block.values;
    switch (part.width) {
        case 1:
            return compute_splines<1>(part, t, rows, values);
        case 2:
            return compute_splines<2>(part, t, rows, values);
        case 3:
            return compute_splines<3>(part, t, rows, values);
        case 4:
            return compute_splines<4>(part, t, rows, values);
        case 5:
            return compute_splines<5>(part, t, rows, values);
        default:
            return compute_splines<6>(part, t, rows, values);
    }
}

template <class T>
void load_stored(const CompactPart& part, long long begin, int rows, RowBlock& block) {
    const T* const values = static_cast<const T*>(part.values) + begin * part.width;
    for (int i = 0; i < rows; ++i) block.cell[i] = part.first[begin + i];
    for (int i = 0; i < rows * part.width; ++i) block.values[i] = values[i];
}

inline void load(const CompactPart& part, long long begin, int rows, RowBlock& block) {
    if (part.first == nullptr)
        part.is_float ? load_splines<float>(part, begin, rows, block)
                      : load_splines<double>(part, begin, rows, block);
    else
        part.is_float ? load_stored<float>(part, begin, rows, block)
                      : load_stored<double>(part, begin, rows, block);
}

/// Call `use(begin, rows, block)` for all blocks of some rows.
template <class Use>
void for_blocks(const CompactPart& part, long long begin, long long end, RowBlock& block, Use use) {
    for (; begin < end; begin += block_rows) {
        const int rows = static_cast<int>(min(end - begin, static_cast<long long>(block_rows)));
        load(part, begin, rows, block);
        use(begin, rows);
    }
}

/// Call `use` with the width as a type if it is frequent, so that its loops are unrolled.
template <int value>
struct Constant {
    constexpr operator int() const { return value; }
};
template <class Use>
void with_width(int width, Use use) {
    switch (width) {
        case 1:
            return use(Constant<1>());
        case 2:
            return use(Constant<2>());
        case 3:
            return use(Constant<3>());
        case 4:
            return use(Constant<4>());
        default:
            return use(width);
    }
}

/// Memory for sums of double, which are zero at first.
struct Sums {
    double* const first;

    explicit Sums(long long count)
        : first(static_cast<double*>(std::calloc(count, sizeof(double)))) {}
    ~Sums() { std::free(first); }
    Sums(const Sums&) = delete;
    Sums& operator=(const Sums&) = delete;
};

/// c += X'u of a part and of several vectors u; `pitch` is the distance of their sums in c.
inline bool project(const CompactPart& part, long long begin, long long end, const double* u,
                    long long u_stride, long long fits, double* c, long long pitch) {
    const long long size = static_cast<long long>(part.cells) * part.width;
    const Sums sums(copies * fits * size);
    if (sums.first == nullptr) return false;
    RowBlock block;
    with_width(part.width, [&](auto width) {
        for_blocks(part, begin, end, block, [&](long long row, int rows) {
            for (long long fit = 0; fit < fits; ++fit) {
                const double* const own = u + fit * u_stride + row;
                double* const of_fit = sums.first + copies * fit * size;
                for (int i = 0; i < rows; ++i) {
                    double* const sum = of_fit + (i % copies) * size + block.cell[i] * width;
                    const double* const values = block.values + i * width;
                    for (int j = 0; j < width; ++j) sum[j] += values[j] * own[i];
                }
            }
        });
    });
    for (long long fit = 0; fit < fits; ++fit)
        for (int copy = 0; copy < copies; ++copy)
            for (int cell = 0; cell < part.cells; ++cell)
                for (int j = 0; j < part.width; ++j)
                    c[fit * pitch + cell + part.offsets[j]] +=
                        sums.first[((copies * fit + copy) * part.cells + cell) * part.width + j];
    return true;
}

/// f += X b of a part, for some rows.
inline void add_product(const CompactPart& part, long long begin, long long end, const double* b,
                        double* f) {
    RowBlock block;
    with_width(part.width, [&](auto width) {
        for_blocks(part, begin, end, block, [&](long long row, int rows) {
            for (int i = 0; i < rows; ++i) {
                const double* const values = block.values + i * width;
                double sum = 0;
                for (int j = 0; j < width; ++j)
                    sum += values[j] * b[block.cell[i] + part.offsets[j]];
                f[row + i] += sum;
            }
        });
    });
}
