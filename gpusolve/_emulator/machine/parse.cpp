// Reads the bodies of functions: statements, scopes, labels and operands.

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "machine.h"
#include "parse.h"

namespace machine {

using std::string;
using std::string_view;

namespace {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] void refuse(int line, const string& what) {
    throw Error("PTX line " + std::to_string(line) + ": " + what);
}

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

string_view strip(string_view text) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

bool is_name(char c) {
    return std::isalnum(static_cast<u8>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

/// The parts of a text between commas that are in no bracket.
std::vector<string_view> split(string_view text, char separator = ',') {
    std::vector<string_view> parts;
    int depth = 0;
    std::size_t start = 0;
    for (std::size_t k = 0; k <= text.size(); ++k) {
        const char c = k < text.size() ? text[k] : separator;
        if (c == '{' || c == '[' || c == '(') ++depth;
        if (c == '}' || c == ']' || c == ')') --depth;
        if ((c == separator && depth == 0) || k == text.size()) {
            const string_view part = strip(text.substr(start, k - start));
            if (!part.empty()) parts.push_back(part);
            start = k + 1;
        }
    }
    return parts;
}

bool is_number(string_view text) {
    return !text.empty() &&
           (std::isdigit(static_cast<u8>(text[0])) || (text[0] == '-' && text.size() > 1));
}

u64 number(string_view view) {
    string text(view);
    if (text.size() > 2 && text[0] == '0' && strchr("fFdD", text[1]))
        return std::stoull(text.substr(2), nullptr, 16);
    const bool negative = text[0] == '-';
    const u64 value = std::stoull(text.substr(negative), nullptr, 0);
    return negative ? 0 - value : value;
}

int bytes_of(string_view type) {
    if (type == "pred") return 1;
    if (type == "f16x2" || type == "bf16x2") return 4;
    if (type == "bf16") return 2;
    const int bits = std::atoi(string(type.substr(1)).c_str());
    return bits / 8;
}

struct Declared {
    string name;
    u32 bytes, align;
};

/// ".align 8 .b8 name[16]", with or without ".param" before it.
Declared declaration(string_view text, int line) {
    Declared found{"", 1, 0};
    u32 element = 0;
    bool is_pointer = false;  // what follows describes its target
    for (text = strip(text); !text.empty() && text[0] == '.'; text = strip(text)) {
        std::size_t end = 1;
        while (end < text.size() && (std::isalnum(static_cast<u8>(text[end])) || text[end] == '_'))
            ++end;
        const string_view word = text.substr(1, end - 1);
        text.remove_prefix(end);
        if (word == "ptr") is_pointer = true;
        if (word == "align") {
            text = strip(text);
            if (!is_pointer) found.align = static_cast<u32>(std::atoi(string(text).c_str()));
            while (!text.empty() && std::isdigit(static_cast<u8>(text[0]))) text.remove_prefix(1);
        } else if (word == "v2" || word == "v4") {
            found.bytes *= word == "v2" ? 2 : 4;
        } else if (!element && word != "param" && word != "local" && word != "shared") {
            element = static_cast<u32>(bytes_of(word));
        }
    }
    if (!element) refuse(line, "a declaration without a type: " + string(text));
    std::size_t end = 0;
    while (end < text.size() && is_name(text[end])) ++end;
    found.name = text.substr(0, end);
    found.bytes *= element;
    found.align = std::max(found.align, element);
    for (text.remove_prefix(end); !(text = strip(text)).empty() && text[0] == '[';) {
        const std::size_t close = text.find(']');
        found.bytes *= static_cast<u32>(std::atoi(string(text.substr(1)).c_str()));
        text.remove_prefix(close + 1);
    }
    return found;
}

const std::vector<string> SPECIAL_NAMES = {
    "%tid.x",       "%tid.y",       "%tid.z",       "%ntid.x",      "%ntid.y",
    "%ntid.z",      "%ctaid.x",     "%ctaid.y",     "%ctaid.z",     "%nctaid.x",
    "%nctaid.y",    "%nctaid.z",    "%laneid",      "%warpid",      "%nwarpid",
    "%lanemask_lt", "%lanemask_le", "%lanemask_eq", "%lanemask_ge", "%lanemask_gt"};

/// A register, a number, a place in local memory, or what a symbol stands for.
struct Operand {
    enum { reg, value, local, special, label, nothing } is = nothing;
    u64 number = 0;  // of the register or the special register; or the value
    string_view name;
    s64 offset = 0;
    bool is_address = false, is_negated = false, is_parameter = false;
};

struct Scope {
    int parent;
    std::unordered_map<string, u32> registers;
    std::unordered_map<string, Declared> variables;  // `align` has the offset
    std::unordered_map<string, u32> labels;
};

class Reader {
  public:
    Reader(Kernel& kernel, Function& function, const Symbol& symbol)
        : kernel_(kernel), function_(function), line_(symbol.line), is_entry_(symbol.is_entry) {
        scopes_.push_back({-1, {}, {}, {}});
        widths_.push_back(8);  // register 0 has the frame's place in local memory
        u32 offset = 0;
        for (const string_view text : split(symbol.parameters)) {
            Declared found = declaration(text, line_);
            offset = aligned(offset, found.align);
            function.parameters.push_back({0, offset, found.bytes});
            (is_entry_ ? entry_parameters_ : scopes_[0].variables)[found.name] = {
                found.name, found.bytes, offset};
            offset += found.bytes;
        }
        if (is_entry_) {
            kernel.parameter_bytes = offset;
        } else {
            local_bytes_ = offset;
            for (const string_view text : split(symbol.result)) {
                const Declared found = declaration(text, line_);
                function.result = {0, add_local(found), found.bytes};
            }
        }
        read(symbol.body);
        finish();
    }

    std::vector<Defined> defined;  // of each instruction

  private:
    Kernel& kernel_;
    Function& function_;
    int line_;
    bool is_entry_;
    std::vector<Scope> scopes_;
    int scope_ = 0;
    std::vector<int> widths_;  // bytes of each register
    u32 local_bytes_ = 0;
    std::unordered_map<string, Declared> entry_parameters_;
    s32 file_ = 0, source_line_ = 0;
    using Location = std::array<int, 3>;  // file, line and column
    std::map<Location, Location> callers_;
    struct Jump {
        std::size_t inst;
        string label;
        int scope, line;
    };
    std::vector<Jump> jumps_;
    std::unordered_map<string, std::vector<Jump>> tables_;
    std::vector<std::pair<std::size_t, string>> switches_;

    u32 add_local(const Declared& found) {
        local_bytes_ = aligned(local_bytes_, found.align);
        scopes_[static_cast<std::size_t>(scope_)].variables[found.name] = {found.name, found.bytes,
                                                                           local_bytes_};
        local_bytes_ += found.bytes;
        return local_bytes_ - found.bytes;
    }

    Scope& scope() { return scopes_[static_cast<std::size_t>(scope_)]; }

    template <class Map>
    auto* find(Map Scope::* member, const string& name) {
        for (int k = scope_; k >= 0; k = scopes_[static_cast<std::size_t>(k)].parent) {
            auto& map = scopes_[static_cast<std::size_t>(k)].*member;
            if (auto found = map.find(name); found != map.end()) return &found->second;
        }
        return static_cast<typename Map::mapped_type*>(nullptr);
    }

    void read(string_view text) {
        std::size_t at = 0;
        while (at < text.size()) {
            const char c = text[at];
            if (c == '\n') ++line_;
            if (is_space(c) || c == ';') {
                ++at;
            } else if (c == '{') {
                scopes_.push_back({scope_, {}, {}, {}});
                scope_ = static_cast<int>(scopes_.size()) - 1;
                ++at;
            } else if (c == '}') {
                scope_ = scope().parent;
                ++at;
            } else if (text.compare(at, 5, ".loc\t") == 0 || text.compare(at, 5, ".loc ") == 0) {
                const std::size_t end = std::min(text.find('\n', at), text.size());
                locate(string(text.substr(at, end - at)));
                at = end;
            } else if (const std::size_t colon = label_end(text, at); colon != string_view::npos) {
                const string name(strip(text.substr(at, colon - at)));
                at = colon + 1;
                const std::size_t next = text.find_first_not_of(" \t\r\n", at);
                if (next != string_view::npos && text.compare(next, 14, ".branchtargets") == 0) {
                    const std::size_t end = text.find(';', next);
                    for (const string_view label : split(text.substr(next + 14, end - next - 14)))
                        tables_[name].push_back({0, string(label), scope_, line_});
                    at = end + 1;
                } else if (next != string_view::npos &&
                           text.compare(next, 14, ".callprototype") == 0) {
                    at = text.find(';', next) + 1;
                } else {
                    scope().labels[name] = static_cast<u32>(function_.code.size());
                }
            } else {
                const std::size_t end = std::min(text.find(';', at), text.size());
                const string_view statement = text.substr(at, end - at);
                const int line = line_;
                c == '.' ? declare(statement) : instruction(statement);
                line_ =
                    line + static_cast<int>(std::count(statement.begin(), statement.end(), '\n'));
                at = end + 1;
            }
        }
    }

    /// A line of the source. A line of a hidden file stands for the line that calls it.
    void locate(const string& text) {
        Location own{}, caller{};
        std::sscanf(text.c_str(), ".loc %d %d %d", &own[0], &own[1], &own[2]);
        if (const std::size_t at = text.find("inlined_at"); at != string::npos) {
            std::sscanf(text.c_str() + at, "inlined_at %d %d %d", &caller[0], &caller[1],
                        &caller[2]);
            callers_[own] = caller;
        }
        const auto& hidden = kernel_.hidden_files;
        for (int depth = 0; depth < 50 && std::count(hidden.begin(), hidden.end(), own[0]); ++depth)
            if (auto found = callers_.find(own); found != callers_.end()) own = found->second;
        if (!own[1]) return;  // code of the compiler, for the line before
        file_ = own[0];
        source_line_ = own[1];
    }

    static std::size_t label_end(string_view text, std::size_t at) {
        std::size_t end = at;
        while (end < text.size() && is_name(text[end]) && text[end] != '.') ++end;
        const std::size_t name = end;
        while (end < text.size() && is_space(text[end])) ++end;
        const bool is_label =
            name > at && end < text.size() && text[end] == ':' && text.compare(end, 2, "::");
        return is_label ? end : string_view::npos;
    }

    void declare(string_view text) {
        if (text.compare(0, 4, ".reg") == 0) {
            text = strip(text.substr(4));
            const std::size_t end = text.find_first_of(" \t\n");
            const int bytes = std::max(bytes_of(text.substr(1, end - 1)), 1);
            const bool is_predicate = text.substr(1, end - 1) == "pred";
            for (const string_view part : split(text.substr(end))) {
                const std::size_t open = part.find('<');
                const string name(strip(part.substr(0, open)));
                const int n = open == string_view::npos
                                  ? 1
                                  : std::atoi(string(part.substr(open + 1)).c_str());
                for (int k = 0; k < n; ++k) {
                    scope().registers[open == string_view::npos ? name : name + std::to_string(k)] =
                        static_cast<u32>(widths_.size());
                    widths_.push_back(is_predicate ? 1 : std::max(bytes, 2));
                }
            }
        } else if (text.compare(0, 6, ".param") == 0 || text.compare(0, 6, ".local") == 0) {
            add_local(declaration(text, line_));
        }
    }

    Operand operand(string_view text) {
        Operand found;
        text = strip(text);
        if (text[0] == '!') {
            found.is_negated = true;
            text = strip(text.substr(1));
        }
        if (text[0] == '[') {
            found = operand(text.substr(1, text.rfind(']') - 1));
            found.is_address = true;
            return found;
        }
        std::size_t plus = text.find('+', 1);
        if (plus != string_view::npos) {
            const string_view rest = strip(text.substr(plus + 1));
            found = operand(text.substr(0, plus));
            found.offset += static_cast<s64>(number(rest));
            if (found.is == Operand::value)
                found.number += static_cast<u64>(std::exchange(found.offset, 0));
            return found;
        }
        found.name = text;
        const string name(text);
        if (text == "_") return found;
        if (is_number(text)) {
            found.is = Operand::value;
            found.number = number(text);
        } else if (const u32* reg = find(&Scope::registers, name)) {
            found.is = Operand::reg;
            found.number = *reg;
        } else if (text.compare(0, 22, "%reserved_smem_offset_") == 0) {
            // The driver's part of shared memory, which tiles of several warps use.
            const Symbol reserved{"reserved", 1, 0, 1024, 1024, "", "", "", 0};
            const u64 before = kernel_.static_bytes;
            found.is = Operand::value;
            found.number = value_of(reserved);
            kernel_.static_bytes = before;
        } else if (text[0] == '%') {
            found.is = Operand::special;
            const auto at = std::find(SPECIAL_NAMES.begin(), SPECIAL_NAMES.end(), name);
            found.number = static_cast<u64>(at - SPECIAL_NAMES.begin());
        } else if (text == "WARP_SZ") {
            found.is = Operand::value;
            found.number = LANES;
        } else if (const Declared* local = find(&Scope::variables, name)) {
            found.is = Operand::local;
            found.offset = local->align;
            found.is_parameter = true;
        } else if (auto entry = entry_parameters_.find(name); entry != entry_parameters_.end()) {
            found.is = Operand::value;
            found.number = entry->second.align;
        } else if (auto symbol = kernel_.symbols.find(name); symbol != kernel_.symbols.end()) {
            found.is = Operand::value;
            found.number = value_of(*symbol->second);
        } else {
            found.is = Operand::label;
        }
        return found;
    }

    u64 value_of(const Symbol& symbol) {
        if (symbol.kind == 0) return symbol.address;
        if (symbol.kind == 2)
            return window(FUNCTION_WINDOW) + static_cast<u64>(function_in(kernel_, symbol).index);
        for (const SharedVariable& variable : kernel_.shared)
            if (variable.name == symbol.name) return variable.offset;
        // The dynamic memory comes after all variables, whose sizes are not known yet.
        if (symbol.address == 0) {
            kernel_.shared.push_back({symbol.name, DYNAMIC_MARK, 0});
            return DYNAMIC_MARK;
        }
        const u64 align = std::max<u64>(symbol.align, 1);
        const u64 offset = (kernel_.shared_bytes + align - 1) / align * align;
        kernel_.shared.push_back({symbol.name, offset, symbol.address});
        kernel_.shared_bytes = offset + symbol.address + kernel_.gap;
        kernel_.static_bytes = (kernel_.static_bytes + align - 1) / align * align + symbol.address;
        return offset;
    }

    Place constant(u64 value, int bytes) {
        const auto key = std::make_pair(value, bytes);
        if (auto found = kernel_.constant_places.find(key); found != kernel_.constant_places.end())
            return found->second;
        const u32 offset = static_cast<u32>(kernel_.constants.size() * 8);
        u8 values[8 * LANES];
        if (bytes == 1) value = value ? ~0ull : 0;
        for (int l = 0; l < LANES; ++l)
            std::memcpy(values + l * bytes, &value, static_cast<std::size_t>(bytes));
        kernel_.constants.resize(kernel_.constants.size() + LANES);
        std::memcpy(reinterpret_cast<u8*>(kernel_.constants.data()) + offset, values,
                    sizeof(values));
        return kernel_.constant_places[key] = place(offset, CONSTANTS);
    }

    static Place of_register(u64 reg) { return place(static_cast<u32>(reg), FRAME); }

    void instruction(string_view text) {
        Inst inst;
        inst.ptx_line = line_;
        inst.file = file_;
        inst.line = source_line_;
        inst.function = &function_;
        inst.guard = place(0, NOWHERE);
        const string_view whole = text;
        std::vector<u32> uses;
        if (text[0] == '@') {
            const bool negated = text[1] == '!';
            std::size_t end = 1 + negated;
            while (end < text.size() && is_name(text[end])) ++end;
            const u32* reg =
                find(&Scope::registers, string(text.substr(1 + negated, end - 1 - negated)));
            if (!reg) refuse(line_, "an unknown predicate: " + string(whole));
            inst.guard = of_register(*reg);
            inst.flip = negated ? ALL : 0;
            text = strip(text.substr(end));
        }
        std::size_t end = 0;
        while (end < text.size() && !is_space(text[end]) && text[end] != '(') ++end;
        string opcode(text.substr(0, end));
        for (std::size_t k; (k = opcode.find("::")) != string::npos;) opcode.replace(k, 2, "_");
        const std::vector<string_view> parts = split(opcode, '.');
        const string_view rest = strip(text.substr(end));
        if (parts[0] == "call") return call(inst, rest, whole);
        if (parts[0] == "pragma") return;

        // Operands of vectors one after the other.
        std::vector<Operand> operands;
        int vector = 1, vector_at = -1;
        for (const string_view part : split(rest)) {
            if (part[0] == '{') {
                const auto elements = split(part.substr(1, part.rfind('}') - 1));
                vector_at = vector_at < 0 ? static_cast<int>(operands.size()) : vector_at;
                vector = static_cast<int>(elements.size());
                for (const string_view element : elements) operands.push_back(operand(element));
            } else {
                for (const string_view one : split(part, '|')) operands.push_back(operand(one));
            }
        }
        if (operands.size() > MOST_OPERANDS) refuse(line_, "too many operands: " + string(whole));
        std::vector<int> widths;
        for (const Operand& one : operands)
            widths.push_back(one.is == Operand::reg       ? widths_[one.number]
                             : one.is == Operand::special ? 4
                             : one.is == Operand::nothing ? -1
                                                          : 0);
        std::vector<string_view> words = parts;
        if (parts[0] == "mov" && operands.size() == 2) {
            const Operand& from = operands[1];
            if (from.is == Operand::local) {  // the address of a local variable
                words = {"add", "u64"};
                operands.push_back(from);
                operands[1] = Operand{Operand::reg, 0, "", 0, false, false, false};
                operands[2] = Operand{
                    Operand::value, static_cast<u64>(from.offset), "", 0, false, false, false};
                widths = {8, 8, 0};
            } else if (from.is == Operand::special && from.number >= SPECIAL_NAMES.size()) {
                words = {"special", from.name.substr(1)};
                operands.pop_back();
                widths.pop_back();
            }
        }
        for (std::size_t k = 0; k < operands.size(); ++k)
            if (operands[k].is_address) {
                const bool is_second = inst.width != 0;
                (is_second ? inst.second_offset : inst.offset) = operands[k].offset;
                (is_second ? inst.second_width : inst.width) =
                    static_cast<u8>(widths[k] ? widths[k] : 8);
            }
        if (vector_at >= 0 && parts[0] == "mov")
            inst.mode = static_cast<u8>(vector_at == 0 ? 1 : 0);
        inst.count = static_cast<u8>(operands.size());
        string shape;
        if (!decode(inst, words, widths, vector, shape))
            refuse(line_, "the machine does not know the instruction: " + string(whole));
        place_operands(inst, operands, shape, whole, uses);
    }

    void place_operands(Inst& inst, const std::vector<Operand>& operands, const string& shape,
                        string_view whole, std::vector<u32>& uses) {
        Defined defined;
        bool is_source = false;
        std::size_t k = 0;
        for (const char letter : shape) {
            if (letter == ':') {
                is_source = true;
                continue;
            }
            if (k == operands.size()) refuse(line_, "an operand is missing: " + string(whole));
            const Operand& one = operands[k];
            Place& to = inst.op[k];
            if (one.is_negated) inst.negated |= 1u << k;
            ++k;
            if (letter == 'l') {
                if (one.is != Operand::label) refuse(line_, "not a label: " + string(whole));
                jumps_.push_back({function_.code.size(), string(one.name), scope_, line_});
                continue;
            }
            if (letter == 't') {
                switches_.push_back({function_.code.size(), string(one.name)});
                continue;
            }
            if (one.is == Operand::nothing) {
                to = place(0, NOWHERE);
            } else if (one.is == Operand::reg) {
                const int width = widths_[one.number], wanted = width_of(letter);
                if (wanted && wanted != width)
                    refuse(line_, "a register of the wrong size, " + string(one.name) + ": " +
                                      string(whole));
                to = of_register(one.number);
                (is_source ? defined.uses : defined.defines)
                    .push_back(static_cast<u32>(one.number));
            } else if (one.is == Operand::special) {
                if (one.number >= SPECIAL_NAMES.size())
                    refuse(line_,
                           "the machine does not know " + string(one.name) + ": " + string(whole));
                to = place(static_cast<u32>(one.number) * 4 * LANES, SPECIALS);
            } else if (one.is == Operand::local) {
                if (letter != 'a') refuse(line_, "a local variable as a value: " + string(whole));
                to = of_register(0);
                inst.space = Space::local;
            } else if (one.is == Operand::value) {
                const int bytes = letter == 'a' ? 8 : width_of(letter);
                u64 value = one.number;
                if (letter != 'a' && one.offset) value += static_cast<u64>(one.offset);
                if (value >= DYNAMIC_MARK && value < DYNAMIC_MARK + DYNAMIC_MARK_BYTES)
                    dynamic_uses.push_back(
                        {function_.code.size(), k - 1, value - DYNAMIC_MARK, bytes});
                to = constant(value, bytes);
            } else {
                refuse(line_, "an unknown name, " + string(one.name) + ": " + string(whole));
            }
        }
        if (k != operands.size()) refuse(line_, "too many operands: " + string(whole));
        if (is_entry_ ? false : inst.space == Space::param) inst.space = Space::local;
        add(inst, std::move(defined), uses);
    }

    static int width_of(char letter) {
        switch (letter) {
            case 'p':
                return 1;
            case '2':
                return 2;
            case '4':
            case 'm':
                return 4;
            case '8':
                return 8;
        }
        return 0;
    }

    void add(const Inst& inst, Defined&& found, const std::vector<u32>& uses) {
        found.uses.insert(found.uses.end(), uses.begin(), uses.end());
        if ((inst.guard & 3) == FRAME) {
            found.uses.push_back(inst.guard >> 2);
            // Lanes without the guard keep the value.
            found.uses.insert(found.uses.end(), found.defines.begin(), found.defines.end());
        }
        function_.code.push_back(inst);
        defined.push_back(std::move(found));
    }

    void call(Inst& inst, string_view text, string_view whole) {
        auto made = std::make_unique<Call>();
        std::vector<string_view> parts = split(text);
        std::vector<string_view> results;
        std::size_t k = 0;
        if (parts[0][0] == '(') results = split(parts[k++].substr(1, parts[0].rfind(')') - 1));
        const string_view target = parts.at(k++);
        std::vector<string_view> arguments;
        if (k < parts.size() && parts[k][0] == '(')
            arguments = split(parts[k].substr(1, parts[k].rfind(')') - 1));
        const auto local = [&](string_view name) -> const Declared& {
            const Declared* found = find(&Scope::variables, string(name));
            if (!found) refuse(line_, "a call with a register as an argument: " + string(whole));
            return *found;
        };
        for (const string_view name : arguments) {
            const Declared& found = local(name);
            made->argument.push_back(found.align);
            made->in.push_back({found.align, 0, found.bytes});
        }
        for (const string_view name : results)
            made->out.push_back({local(name).align, 0, local(name).bytes});
        const Operand where = operand(target);
        Defined found;
        if (where.is == Operand::reg) {
            inst.op[0] = of_register(where.number);
            inst.count = 1;
            found.uses.push_back(static_cast<u32>(where.number));
        } else if (auto symbol = kernel_.symbols.find(string(target));
                   symbol != kernel_.symbols.end()) {
            made->callee = &function_in(kernel_, *symbol->second);
        } else {
            made->name = target;
        }
        if (!decode_call(inst, *made))
            refuse(line_, "the machine does not have the function " + string(target));
        inst.call = made.get();
        kernel_.calls.push_back(std::move(made));
        add(inst, std::move(found), {});
    }

    /// The instruction of a label.
    const Inst* resolve(const Jump& jump) {
        for (int k = jump.scope; k >= 0; k = scopes_[static_cast<std::size_t>(k)].parent) {
            const auto& labels = scopes_[static_cast<std::size_t>(k)].labels;
            if (auto found = labels.find(jump.label); found != labels.end())
                return function_.code.data() + found->second;
        }
        refuse(jump.line, "an unknown label, " + jump.label);
    }

    void finish() {
        // A body may end without a return, or with a label.
        Inst last;
        last.function = &function_;
        last.guard = place(0, NOWHERE);
        last.ptx_line = line_;
        last.file = file_;
        last.line = source_line_;
        string shape;
        decode(last, {"ret"}, {}, 1, shape);
        add(last, {}, {});
        for (const Jump& jump : jumps_) function_.code[jump.inst].target = resolve(jump);
        for (auto& [name, labels] : tables_)
            for (const Jump& label : labels) function_.tables[name].push_back(resolve(label));
        for (auto& [inst, name] : switches_) function_.code[inst].targets = &function_.tables[name];
        function_.local_bytes = local_bytes_;
        function_.frame_bytes = allocate_registers(function_, defined, widths_);
    }

  public:
    struct DynamicUse {
        std::size_t inst, operand;
        u64 offset;
        int bytes;
    };
    std::vector<DynamicUse> dynamic_uses;

    static Function& function_in(Kernel& kernel, const Symbol& symbol) {
        auto& function = kernel.functions[symbol.name];
        if (!function) {
            function = std::make_unique<Function>();
            function->name = symbol.name;
            function->index = static_cast<int>(&symbol - kernel.first_symbol);
            kernel.by_index.push_back(function.get());
            kernel.by_number[static_cast<std::size_t>(function->index)] = function.get();
        }
        return *function;
    }

    Place constant_of(u64 value, int bytes) { return constant(value, bytes); }
};

/// Bytes of local memory that the calls of a function need; more if it calls itself.
u32 stack_of(Kernel& kernel, const Function& function, std::vector<const Function*>& path) {
    constexpr u32 RECURSIVE_STACK = 1 << 16;
    if (std::find(path.begin(), path.end(), &function) != path.end()) {
        kernel.is_recursive = true;
        return RECURSIVE_STACK;
    }
    path.push_back(&function);
    u32 most = 0;
    for (const Inst& inst : function.code) {
        if (!inst.call) continue;
        if (inst.call->callee) most = std::max(most, stack_of(kernel, *inst.call->callee, path));
        if (!inst.call->callee && inst.call->name.empty()) most = std::max(most, RECURSIVE_STACK);
    }
    path.pop_back();
    return aligned(function.local_bytes, 16) + most;
}

}  // namespace

std::unique_ptr<Kernel> load(const Symbol* symbols, int count, const char* entry, u64 gap,
                             const char* hidden_files, string& error) {
    auto kernel = std::make_unique<Kernel>();
    for (const string_view file : split(hidden_files))
        kernel->hidden_files.push_back(std::atoi(string(file).c_str()));
    kernel->gap = gap;
    for (int k = 0; k < count; ++k) kernel->symbols[symbols[k].name] = &symbols[k];
    kernel->first_symbol = symbols;
    kernel->by_number.resize(static_cast<std::size_t>(count));
    try {
        kernel->entry = &Reader::function_in(*kernel, *kernel->symbols.at(entry));
        std::vector<std::unique_ptr<Reader>> readers;
        for (std::size_t k = 0; k < kernel->by_index.size(); ++k) {  // grows with each call
            readers.push_back(std::make_unique<Reader>(
                *kernel, *kernel->by_index[k], *kernel->symbols.at(kernel->by_index[k]->name)));
            // A call by address may call each function whose address is in a variable.
            const auto& calls = kernel->calls;
            if (std::any_of(calls.begin(), calls.end(), [](const auto& call) {
                    return !call->callee && call->name.empty();
                }))
                for (int other = 0; other < count; ++other)
                    if (symbols[other].is_in_variable) Reader::function_in(*kernel, symbols[other]);
        }
        const u64 dynamic = (kernel->shared_bytes + 15) / 16 * 16;
        for (SharedVariable& variable : kernel->shared)
            if (variable.offset == DYNAMIC_MARK) variable.offset = dynamic;
        for (std::size_t k = 0; k < readers.size(); ++k)
            for (const auto& use : readers[k]->dynamic_uses)
                kernel->by_index[k]->code[use.inst].op[use.operand] =
                    readers[k]->constant_of(dynamic + use.offset, use.bytes);
        for (Function* function : kernel->by_index)
            for (Inst& inst : function->code) {
                inst.site = kernel->sites++;
                kernel->by_site.push_back(&inst);
            }
        for (auto& made : kernel->calls)
            if (const Function* callee = made->callee) {
                if (made->in.size() > callee->parameters.size())
                    throw Error("a call of " + callee->name + " with too many arguments");
                for (std::size_t k = 0; k < made->in.size(); ++k)
                    made->in[k].callee = callee->parameters[k].callee;
                for (Copied& copied : made->out) copied.callee = callee->result.callee;
            }
        std::vector<const Function*> path;
        kernel->stack_bytes = stack_of(*kernel, *kernel->entry, path);
    } catch (const std::exception& failure) {
        error = failure.what();
        return nullptr;
    }
    return kernel;
}

}  // namespace machine
