// The table of instructions. A row has an opcode, the function that runs it, and the shape of its
// operands. Most rows are made from a function of one lane: its argument types are the types of
// the operands.

#pragma once

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>

#include "machine.h"
#include "narrow.h"

namespace machine {

/// Which words of an opcode do not belong to a row's name, because they set a field of the
/// instruction: see QUALIFIERS in table.cpp.
enum Family : u8 { PLAIN = 1, ARITHMETIC = 2, CONVERSION = 4, ACCESS = 8, CONTROL = 16 };

/// An instruction with its types. The shape has the operands before and after a colon: what is
/// written, and what is read. Alternatives are separated by a space.
///
/// p: a predicate; 2, 4, 8: a register of 2, 4 or 8 bytes; h, w, d: of at least 2, 4, 8 bytes;
/// a: an address; l: a label; t: a table of labels; *: the letter before, for each element of a
/// vector.
struct Row {
    Run run;
    Kind kind;
    std::string shape;
    Family family = PLAIN;
    u8 mode = 0, bytes = 0, effect = 0;
    u8 order = WEAK;
    const char* name = "";   // in messages
    Run inner = nullptr;     // what `run` wraps
    Run flushed = nullptr;   // with .ftz
    Run wide = nullptr;      // with a register that is wider than its type
    Run adjusted = nullptr;  // with another rounding mode, or saturation
};

class Table {
  public:
    Row& add(const std::string& opcode, Row row) { return rows_[opcode] = std::move(row); }
    const Row* find(const std::string& opcode) const {
        const auto found = rows_.find(opcode);
        return found == rows_.end() ? nullptr : &found->second;
    }
    /// Add a function of a lane for each of the types, of which it is a template.
    template <class... T, class F>
    void each(const std::string& opcode, Kind kind, F function);
    /// The same, for bits under the names of all types of their size: mov, selp.
    template <class... T, class F>
    void each_bits(const std::string& opcode, F function, const std::string& more = "");
    /// Add a function of a lane.
    template <class F>
    Row& one(const std::string& opcode, Kind kind, F function);

  private:
    std::unordered_map<std::string, Row> rows_;
};

/// Wait until all lanes of the mask, which is the last operand, are at an instruction, then run its
/// inner function. For MATRIX all lanes of the warp take part.
void collective(Warp& w, const Inst& i);

/// For instructions that have nothing to do here.
inline void ignore(Warp&, const Inst&) {}

/// Set what an opcode tells about an instruction. Null if no row has the opcode.
const Row* find_row(const std::vector<std::string>& words, Inst& inst);
/// Choose the function of the row, when the registers are known.
void choose_run(Inst& inst, bool is_wide);

void add_integers(Table& table);
void add_floats(Table& table);
void add_comparisons(Table& table);
void add_conversions(Table& table);
void add_accesses(Table& table);
void add_atomics(Table& table);
void add_textures(Table& table);
void add_matrices(Table& table);
void add_control(Table& table);
void add_warp_operations(Table& table);

// ---- types ----

/// Call f with each of the types.
template <class... T, class F>
void for_types(F f) {
    (f.template operator()<T>(), ...);
}

template <class T>
constexpr char letter() {
    return std::is_same_v<T, bool> ? 'p' : sizeof(T) <= 2 ? '2' : sizeof(T) == 4 ? '4' : '8';
}

template <class T>
std::string name_of() {
    if constexpr (is_pair<T>) return name_of<decltype(T::low)>() + "x2";
    if constexpr (std::is_same_v<T, BHalf>) return "bf16";
    constexpr bool is_float = std::is_floating_point_v<T> || std::is_same_v<T, Half>;
    return (is_float ? 'f' : std::is_signed_v<T> ? 's' : 'u') + std::to_string(8 * sizeof(T));
}

/// What a function of a lane returns and takes.
template <class R, class... S>
struct Signature {
    static std::string shape() { return std::string{letter<R>(), ':', letter<S>()...}; }
};
template <class F, class R, class... S>
Signature<R, S...> signature_of(R (F::*)(S...) const);

// ---- loops over lanes ----

template <class S>
struct Source {
    const S* values;
    Source(const Warp& w, const Inst& i, std::size_t k) : values(w.at<S>(i.op[k])) {}
    S operator[](int l) const { return values[l]; }
};
template <>
struct Source<bool> {
    u32 bits;
    Source(const Warp& w, const Inst& i, std::size_t k)
        : bits(w.predicate(i, static_cast<int>(k))) {}
    bool operator[](int l) const { return bits >> l & 1; }
};

inline void set_predicate(Warp& w, Place to, u32 bits) {
    u32* d = w.at<u32>(to);
    *d = (*d & ~w.mask) | (bits & w.mask);
}

/// Give a register its new values in the lanes of the mask.
template <class D>
void assign(Warp& w, Place to, const D* values) {
    using Bits =
        std::conditional_t<sizeof(D) == 2, u16, std::conditional_t<sizeof(D) == 4, u32, u64>>;
    Bits* d = w.at<Bits>(to);
    const Bits* from = reinterpret_cast<const Bits*>(values);
    const u32 mask = w.mask;
#pragma omp simd
    for (int l = 0; l < LANES; ++l) d[l] = mask >> l & 1 ? from[l] : d[l];
}
template <class D>
void assign_all(Warp& w, Place to, D value) {
    D values[LANES];
    std::fill(values, values + LANES, value);
    assign(w, to, values);
}

/// d = f(a, b, ...) for all lanes of the mask, from operand `first` on.
template <class F, class D, class... S>
void map(Warp& w, const Inst& i) {
    [&]<std::size_t... K>(std::index_sequence<K...>) {
        const std::tuple<Source<S>...> s{Source<S>(w, i, K + 1)...};
        if constexpr (std::is_same_v<D, bool>) {
            u32 r = 0;
#pragma omp simd reduction(| : r)
            for (int l = 0; l < LANES; ++l) r |= static_cast<u32>(F{}(std::get<K>(s)[l]...)) << l;
            set_predicate(w, i.op[0], r);
        } else if (w.mask == ALL) {
            D* d = w.at<D>(i.op[0]);
#pragma omp simd
            for (int l = 0; l < LANES; ++l) d[l] = F{}(std::get<K>(s)[l]...);
        } else {
            alignas(64) D t[LANES];
#pragma omp simd
            for (int l = 0; l < LANES; ++l) t[l] = F{}(std::get<K>(s)[l]...);
            assign(w, i.op[0], t);
        }
    }(std::index_sequence_for<S...>());
}

/// f, with operands and result that are flushed to zero.
template <class F>
struct Flushed {
    template <class... S>
    auto operator()(S... s) const {
        return flush(F{}(flush(s)...));
    }
};

/// f on both halves.
template <class F>
struct Packed {
    template <class P, class... S>
    P operator()(P a, S... s) const {
        return {F{}(a.low, s.low...), F{}(a.high, s.high...)};
    }
};

/// An operation in another rounding mode, or with its result in [0, 1]: see floating.cpp.
template <class T>
void adjusted(Warp& w, const Inst& i);

template <class F, class R, class... S>
Row row_of(Kind kind, Signature<R, S...> signature) {
    Row row{&map<F, R, S...>, kind, signature.shape()};
    if constexpr (is_rounded<R>) {
        row.family = ARITHMETIC;
        row.adjusted = &adjusted<R>;
        if constexpr (is_flushed<R>) row.flushed = &map<Flushed<F>, R, S...>;
    }
    return row;
}

template <class P>
struct PackedRow {
    template <class F, class R, class... S>
    static Row of(Kind kind, Signature<R, S...>) {
        return row_of<Packed<F>>(kind, Signature<Pair<R>, Pair<S>...>());
    }
};

template <class... T, class F>
void Table::each(const std::string& opcode, Kind kind, F) {
    for_types<T...>([&]<class One>() {
        if constexpr (is_pair<One>) {
            using Signed = decltype(signature_of(&F::template operator()<decltype(One::low)>));
            add(opcode + "." + name_of<One>(), PackedRow<One>::template of<F>(kind, Signed()));
        } else {
            using Signed = decltype(signature_of(&F::template operator()<One>));
            add(opcode + "." + name_of<One>(), row_of<F>(kind, Signed()));
        }
    });
}

template <class... T, class F>
void Table::each_bits(const std::string& opcode, F, const std::string& more) {
    for_types<T...>([&]<class One>() {
        const auto row = row_of<F>(MOVE, decltype(signature_of(&F::template operator()<One>))());
        for (const char* kind : {".b", ".u", ".s", ".f"})
            add(opcode + kind + std::to_string(8 * sizeof(One)) + more, row);
    });
}

template <class F>
Row& Table::one(const std::string& opcode, Kind kind, F) {
    return add(opcode, row_of<F>(kind, decltype(signature_of(&F::operator()))()));
}

}  // namespace machine
