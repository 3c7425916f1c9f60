// The arrays of the fits of stacked.cu: a struct, passed by value.

#pragma once

/// The places of a part in the arrays of all parts.
struct PartPlace {
    long long first;   // of [row]
    long long values;  // of [row][width]
    long long width;   // at most 32
};

/// How the coefficients of a learner are found from its moments: by a matrix, by the diagonal of a
/// matrix, or by the best cut of its bins (stump.cuh).
enum Kind : long long { by_matrix, by_diagonal, by_cut };

/// The places of a learner in the arrays of all learners.
struct LearnerPlace {
    long long begin_part, end_part;
    long long functions;
    long long column;        // its first function, counted over all learners
    long long kind;          // a `Kind`
    long long matrix;        // of its matrices or diagonals, for a single fit
    long long entries;       // of its matrix or diagonal
    long long sums;          // of the sums of its chunks, for a single fit
    long long chunks;        // of its rows, or of its levels
    long long partials;      // sums of each function: `chunks`, or 1 for chunks of levels
    long long by_level;      // of its rows by level; -1 if they are added in their order
    long long shift;         // a warp adds a row with 2^shift lanes
    long long pitch;         // of its `SumCopies`
    long long window;        // functions whose sums are in shared memory at once
    long long fits_at_once;  // whose sums are in shared memory at once
    long long inequalities;  // 0 if the coefficients may be any
    long long cone;          // of its inequalities, for a single fit
    long long least;         // weight of each side of a cut
};

/// All fits of a launch, which makes the steps from `begin` to `end` - 1, out of 0 (the gradient at
/// the start) to `steps`.
template <class T>
struct StackedFits {
    const int* first;
    const T* values;
    const int* offsets;
    const PartPlace* parts;
    const LearnerPlace* learners;
    const int* pairs;
    const double *gram, *inverse, *cones;
    const long long* by_level;  // of each factor of many levels, as `RowsByLevel`: begins, order
    const double *y, *weights, *held_out;
    const double* rates;      // [fit]
    double* f;                // the model before the first step, updated in place
    double* u;                // work: [fit][row]
    double* sums;             // work: as `LearnerPlace` says
    double* coefficients;     // work: [fit][column]
    double* scores;           // work: [fit][learner]
    double* partial;          // work: [fit][18][row chunk]
    double* searches;         // work: [fit][4 q + 9], for q nuisance parameters
    double* candidates;       // work: [fit], risks
    const int* allowed;       // [predictor][learner], may be null
    const long long* places;  // of `RiskSets`, as the next; null for other families
    double* risk_sets;        // work
    int* selected;
    double *updates, *risk, *held_out_risk, *nuisance;
    unsigned long long* arrived;
    long long rows, y_stride, weight_stride;
    double parameter;
    int count, fits, columns, pair_count, systems, row_chunks, fits_at_once;
    int begin, end, steps, functions;
    int scaled;            // whether curvatures scale the steps
    int predictors, made;  // of a model; the steps before step 0
    int is_cyclic;
};
