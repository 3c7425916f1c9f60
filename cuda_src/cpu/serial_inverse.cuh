// The inverse H of passive_inverse.cuh for a team of one thread: a square matrix.

#pragma once

#include "../passive_inverse.cuh"
#include "serial_products.cuh"

template <>
struct PassiveInverseArrays<SerialTeam> {
    Vector<double> H;
    int leading;
    Vector<int> variables;

    void place(TeamMemory& memory, int capacity) {
        leading = capacity;
        memory.take(H, static_cast<long long>(capacity) * capacity);
        memory.take(variables, capacity);
    }
};

template <>
class PassiveInverse<SerialTeam> {
  public:
    using Reals = Vector<double>;

    int length = 0;

    explicit PassiveInverse(const PassiveInverseArrays<SerialTeam>& arrays) : at(arrays) {}

    __forceinline__ int variable(int p) const { return at.variables[p]; }
    Chosen<SerialTeam> passive() const { return {at.variables, length}; }
    Chosen<SerialTeam> all(int n) const { return {{nullptr}, n}; }
    void clear() { length = 0; }

    template <class Body>
    __forceinline__ void for_each(Body body) const {
        for (int p = 0; p < length; ++p) body(p);
    }

    void multiply(SerialTeam&, Reals in, Reals out) const {
        combine(MatrixView{at.H, 1, at.leading}, length, all(length), in, PlainSum{0},
                [&](int p, PlainSum sum) { out[p] = sum.value; });
    }

    Two project(SerialTeam& team, Reals g, Reals w, Reals u, Located<double>&) const {
        multiply(team, g, u);
        return {dot(u.first, g.first, length), dot(u.first, w.first, length)};
    }

    /// Append a variable: see PassiveInverse. Overwrites u.
    int append(int variable, Reals u, double square) {
        const double reciprocal = 1 / square_root(square);
        for (int k = 0; k < length; ++k) {
            u[k] *= reciprocal;
            row(length)[k] = row(k)[length] = 0;
        }
        row(length)[length] = 0;
        u[length] = -reciprocal;
        add_square(u, length + 1, 1);
        at.variables[length] = variable;
        return length++;
    }

    /// Remove the variable at `position`: see PassiveInverse.
    void remove(SerialTeam&, int position, Reals v, Reals x, Reals w, Reals d, double left) {
        const int last = length - 1;
        const double square = row(position)[position];
        const double reciprocal = 1 / square_root(fabs(square));
        for (int k = 0; k < length; ++k) v[k] = row(position)[k] * reciprocal;
        const double sign = square < 0 ? 1 : -1;
        add_square(v, length, sign);
        const double part = sign * reciprocal * left * d[position];
        for (int k = 0; k < length; ++k) d[k] = multiply_add(part, v[k], left * d[k]);
        const double corner = row(last)[last];
        for (int k = 0; k < last; ++k) row(position)[k] = row(k)[position] = row(last)[k];
        row(position)[position] = corner;
        at.variables[position] = at.variables[last];
        x[position] = x[last];
        w[position] = w[last];
        d[position] = d[last];
        --length;
    }

  private:
    const PassiveInverseArrays<SerialTeam>& at;

    __forceinline__ double* row(int p) const {
        return at.H.first + static_cast<long long>(at.leading) * p;
    }

    /// H += sign v v^T.
    void add_square(Reals v, int count, double sign) const {
        for (int k = 0; k < count; ++k) {
            double* const entries = row(k);
            const double factor = sign * v[k];
            const Four factors = all_four(factor);
            int i = 0;
            for (; i + four <= count; i += four)
                store_four(entries + i,
                           multiply_add(factors, load_four(v.first + i), load_four(entries + i)));
            for (; i < count; ++i) entries[i] = multiply_add(factor, v[i], entries[i]);
        }
    }
};
