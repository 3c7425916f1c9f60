// Finds the row of an instruction by its opcode.

#include <array>

#include "table.h"

namespace machine {

namespace {

/// Words that set a field of an instruction, and the families that take them.
struct Qualifier {
    std::string_view words;
    int families;
    void (*set)(Inst& inst);
};

template <u8 Inst::* field, u8 value>
void set_field(Inst& inst) {
    inst.*field |= value;
}
template <Space space>
void set_space(Inst& inst) {
    inst.space = space;
}
template <u8 elements>
void set_vector(Inst& inst) {
    inst.vector = elements;
}
template <u8 order>
void set_strong(Inst& inst) {
    inst.order |= order;
    inst.is_volatile = true;
}
void change_nothing(Inst&) {}

constexpr int ROUNDED = ARITHMETIC | CONVERSION, SCOPED = ACCESS | CONTROL;

constexpr Qualifier QUALIFIERS[] = {
    {"rn", ROUNDED, set_field<&Inst::rounding, RN>},
    {"rz", ROUNDED, set_field<&Inst::rounding, RZ>},
    {"rm", ROUNDED, set_field<&Inst::rounding, RM>},
    {"rp", ROUNDED, set_field<&Inst::rounding, RP>},
    {"rni", CONVERSION, set_field<&Inst::rounding, RNI>},
    {"rzi", CONVERSION, set_field<&Inst::rounding, RZI>},
    {"rmi", CONVERSION, set_field<&Inst::rounding, RMI>},
    {"rpi", CONVERSION, set_field<&Inst::rounding, RPI>},
    {"ftz", ROUNDED, set_field<&Inst::flushes, 1>},
    {"sat", ROUNDED, set_field<&Inst::saturates, 1>},
    {"relu", CONVERSION, set_field<&Inst::is_relu, 1>},
    {"global", ACCESS, set_space<Space::global>},
    {"const", ACCESS, set_space<Space::constant>},
    {"shared shared_cta shared_cluster", ACCESS, set_space<Space::shared>},
    {"local", ACCESS, set_space<Space::local>},
    {"param param_entry param_func", ACCESS, set_space<Space::param>},
    {"volatile", ACCESS, set_strong<WEAK>},
    {"relaxed", ACCESS, set_strong<RELAXED>},
    {"acquire", SCOPED, set_strong<ACQUIRE>},
    {"release", SCOPED, set_strong<RELEASE>},
    {"acq_rel", SCOPED, set_strong<ACQUIRE | RELEASE>},
    {"cta", SCOPED, set_field<&Inst::scope, 1>},
    {"v2", ACCESS, set_vector<2>},
    {"v4", ACCESS, set_vector<4>},
    // Hints, and words that repeat what is known.
    {"approx full", ARITHMETIC, change_nothing},
    {"cluster gpu sys", SCOPED, change_nothing},
    {"sc gl uni aligned", CONTROL, change_nothing},
    {"mmio weak ca cg cs lu cv wb wt nc noftz unified L2_64B L2_128B L2_256B L2_cache_hint "
     "L1_evict_normal L1_evict_unchanged L1_evict_first L1_evict_last L1_no_allocate",
     ACCESS, change_nothing},
};

const Qualifier* qualifier_of(std::string_view word) {
    const auto has_word = [&](const Qualifier& one) {
        const auto at = (" " + std::string(one.words) + " ").find(" " + std::string(word) + " ");
        return at != std::string::npos;
    };
    const auto found = std::find_if(std::begin(QUALIFIERS), std::end(QUALIFIERS), has_word);
    return found == std::end(QUALIFIERS) ? nullptr : found;
}

const Table& table() {
    static const Table all = [] {
        Table made;
        for (auto* add :
             {add_integers, add_floats, add_comparisons, add_conversions, add_accesses, add_atomics,
              add_textures, add_matrices, add_control, add_warp_operations})
            add(made);
        return made;
    }();
    return all;
}

/// The row of an opcode. Types of bits have the rows of types without a sign.
const Row* row_named(std::string opcode) {
    if (const Row* found = table().find(opcode)) return found;
    for (std::size_t k = 0; k + 2 < opcode.size(); ++k)
        if (opcode[k] == '.' && opcode[k + 1] == 'b' &&
            std::isdigit(static_cast<u8>(opcode[k + 2])))
            opcode[k + 1] = 'u';
    return table().find(opcode);
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text.append(text.empty() ? "" : ".").append(word);
    return text;
}

}  // namespace

const Row* find_row(const std::vector<std::string>& words, Inst& inst) {
    const Row* row = row_named(joined(words));
    std::vector<const Qualifier*> taken;
    if (!row) {
        std::vector<std::string> others;
        for (const std::string& word : words)
            if (const Qualifier* own = others.empty() ? nullptr : qualifier_of(word))
                taken.push_back(own);
            else
                others.push_back(word);
        row = row_named(joined(others));
    }
    if (!row) return nullptr;
    inst.row = row;
    inst.run = row->run;
    inst.inner = row->inner;
    inst.kind = row->kind;
    inst.mode = row->mode;
    inst.effect = row->effect;
    inst.order = row->order;
    inst.is_volatile = row->order != WEAK;
    for (const Qualifier* one : taken) {
        if (!(one->families & row->family)) return nullptr;
        one->set(inst);
    }
    inst.bytes = static_cast<u8>(row->bytes * inst.vector);
    if (inst.is_atomic()) inst.is_volatile = false;
    return row;
}

void choose_run(Inst& inst, bool is_wide) {
    const Row& row = *inst.row;
    if (row.wide &&
        (is_wide || inst.rounding > RN || inst.flushes || inst.saturates || inst.is_relu))
        inst.run = row.wide;
    else if (inst.flushes && row.flushed)
        inst.run = row.flushed;
    if (row.adjusted && (inst.rounding > RN || inst.saturates))
        inst.inner = std::exchange(inst.run, row.adjusted);
}

}  // namespace machine
