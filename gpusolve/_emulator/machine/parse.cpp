// Reads the bodies of functions: statements, scopes, labels and operands.

#include <array>

#include "table.h"
#include "program.h"

namespace machine {

namespace {

/// Stands for the offset of the dynamic shared memory, until it is known.
constexpr u64 DYNAMIC = 0x7d00'0000'0000'0000, MOST_DYNAMIC = 1 << 20;

constexpr u64 MOST_LOCAL_BYTES = 512 << 10;

const std::vector<string> SPECIAL_NAMES = {
    "%tid.x",       "%tid.y",       "%tid.z",       "%ntid.x",      "%ntid.y",
    "%ntid.z",      "%ctaid.x",     "%ctaid.y",     "%ctaid.z",     "%nctaid.x",
    "%nctaid.y",    "%nctaid.z",    "%laneid",      "%warpid",      "%nwarpid",
    "%lanemask_lt", "%lanemask_le", "%lanemask_eq", "%lanemask_ge", "%lanemask_gt"};

/// A register, a number, a place in local memory, or what a symbol stands for.
struct Operand {
    enum { reg, value, local, special, label, nothing } is = nothing;
    u64 number = 0;  // of the register or the special register; or the value
    string name;
    s64 offset = 0;
    bool is_address = false, is_negated = false;
};

/// What a name stands for: a register, an offset in local memory or among the parameters of an
/// entry (a value), or an instruction.
struct Name {
    decltype(Operand::is) is;
    u32 number = 0, bytes = 0;
};

struct Scope {
    int parent;
    std::unordered_map<string, Name> names;
};

Function& function_in(Kernel& kernel, std::size_t number) {
    auto& function = kernel.functions[number];
    if (!function) {
        function = std::make_unique<Function>();
        function->name = kernel.program->functions[number].name;
        function->number = number;
        kernel.by_index.push_back(function.get());
    }
    return *function;
}

class Reader {
  public:
    Reader(Kernel& kernel, Function& function, const FunctionText& text)
        : kernel_(kernel), function_(function), line_(text.line), is_entry_(text.is_entry) {
        scopes_.push_back({-1, {}});
        widths_.push_back(8);  // register 0 has the frame's place in local memory
        u32 offset = 0;
        for (const Declared& found : declarations(text.parameters, line_)) {
            offset = aligned(offset, found.align);
            const u32 bytes = static_cast<u32>(found.bytes);
            function.parameters.push_back({0, offset, bytes});
            scope().names[found.name] = {is_entry_ ? Operand::value : Operand::local, offset,
                                         bytes};
            offset += bytes;
        }
        (is_entry_ ? kernel.parameter_bytes : local_bytes_) = offset;
        for (const Declared& found : declarations(text.result, line_))
            function.result = {0, add_local(found), static_cast<u32>(found.bytes)};
        read(text.body);
        instruction("ret");  // a body may end without a return, or with a label
        for (const Jump& jump : jumps_) function_.code[jump.inst].target = resolve(jump);
        for (auto& [name, labels] : tables_)
            for (const Jump& label : labels) function_.tables[name].push_back(resolve(label));
        for (auto& [inst, name] : switches_) function_.code[inst].targets = &function_.tables[name];
        function_.local_bytes = local_bytes_;
        function_.frame_bytes = allocate_registers(function_, defined_, widths_);
    }

  private:
    Kernel& kernel_;
    Function& function_;
    int line_;
    bool is_entry_;
    std::vector<Scope> scopes_;
    int scope_ = 0;
    std::vector<int> widths_;  // bytes of each register
    u32 local_bytes_ = 0;
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
    std::vector<Defined> defined_;  // of each instruction

    u32 add_local(const Declared& found) {
        const u32 offset = aligned(local_bytes_, found.align);
        const u32 bytes = static_cast<u32>(std::min<u64>(found.bytes, TOO_MANY));
        scope().names[found.name] = {Operand::local, offset, bytes};
        local_bytes_ = offset + bytes;
        return offset;
    }

    Scope& scope() { return scopes_[static_cast<std::size_t>(scope_)]; }

    /// What a name stands for in a scope or one around it; null if it is not known, or another
    /// kind.
    const Name* find(const string& name, int from, decltype(Operand::is) kind) const {
        for (int k = from; k >= 0; k = scopes_[static_cast<std::size_t>(k)].parent) {
            const auto& names = scopes_[static_cast<std::size_t>(k)].names;
            const auto found = names.find(name);
            if (found != names.end() && found->second.is == kind) return &found->second;
        }
        return nullptr;
    }

    void read(string_view text) {
        for (std::size_t at = 0, end; at < text.size(); at = end) {
            const char c = text[at];
            end = at + 1;
            if (c == '{') {
                scopes_.push_back({scope_, {}});
                scope_ = static_cast<int>(scopes_.size()) - 1;
            } else if (c == '}') {
                scope_ = scope().parent;
            } else if (c == '.' && text.compare(at, 4, ".loc") == 0 && !is_of_name(text[at + 4])) {
                locate(string(text.substr(at, (end = text.find('\n', at)) - at)));
            } else if (const std::size_t colon = label_end(text, at); colon != string_view::npos) {
                end = colon + 1 + label(text.substr(at, colon - at), text.substr(colon + 1));
            } else if (is_of_name(c) || c == '@') {
                end = std::min(text.find(';', at), text.size());
                const string_view statement = text.substr(at, end - at);
                c == '.' ? declare(statement) : instruction(statement);
            }
            end = std::min(end, text.size());
            line_ += static_cast<int>(std::count(text.begin() + at, text.begin() + end, '\n'));
        }
    }

    /// The colon after a label; npos if there is none.
    static std::size_t label_end(string_view text, std::size_t at) {
        const std::size_t start = at;
        while (at < text.size() && is_of_name(text[at]) && text[at] != '.') ++at;
        const std::size_t colon = text.find_first_not_of(" \t\r\n", at);
        const bool is_label = at > start && colon != string_view::npos && text[colon] == ':' &&
                              text.compare(colon, 2, "::") != 0;
        return is_label ? colon : string_view::npos;
    }

    /// A label, and the list of labels or the prototype that it may name. Returns the list's size.
    std::size_t label(string_view text, string_view rest) {
        const string name(Tokens(text).peek());
        Tokens tokens(rest);
        const string_view directive = tokens.take();
        if (directive == ".branchtargets") {
            do tables_[name].push_back({0, string(tokens.take()), scope_, line_});
            while (tokens.accept(","));
            return rest.find(';');
        }
        if (directive == ".callprototype") return rest.find(';');
        scope().names[name] = {Operand::label, static_cast<u32>(function_.code.size())};
        return 0;
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

    void declare(string_view text) {
        string spaced(text);
        if (spaced.starts_with(".reg.")) spaced.insert(4, " ");
        Tokens tokens(spaced);
        if (tokens.peek() == ".param" || tokens.peek() == ".local") {
            add_local(declaration(tokens, line_));
            return;
        }
        tokens.accept(".extern");
        if (tokens.accept(".shared")) {
            const Declared found = declaration(tokens, line_);
            shared({found.name, "shared", found.bytes, found.align, false});
        }
        if (!tokens.accept(".reg")) return;
        const u32 bytes = bytes_of(tokens.peek());
        const int width = tokens.take() == ".pred" ? 1 : std::max(static_cast<int>(bytes), 2);
        do {
            const string name(tokens.take());
            const bool is_range = tokens.accept("<");
            const u64 count = is_range ? number(tokens.take()) : 1;
            if (is_range) tokens.take();
            for (u64 k = 0; k < count; ++k) {
                scope().names[is_range ? name + std::to_string(k) : name] = {
                    Operand::reg, static_cast<u32>(widths_.size())};
                widths_.push_back(width);
            }
        } while (tokens.accept(","));
    }

    // ---- operands ----

    Operand named(string_view text) {
        const string name(text);
        const auto value = [&](u64 number) { return Operand{Operand::value, number, name}; };
        if (name == "_") return {Operand::nothing, 0, name};
        if (std::isdigit(static_cast<u8>(name[0]))) return value(number(name));
        if (const Name* reg = find(name, scope_, Operand::reg))
            return {Operand::reg, reg->number, name};
        if (name.starts_with("%reserved_smem_offset_")) {
            // The driver's part of shared memory, which tiles of several warps use.
            const u64 before = kernel_.static_bytes;
            const u64 offset = shared({"reserved", "shared", 1024, 1024, false});
            kernel_.static_bytes = before;
            return value(offset);
        }
        if (name[0] == '%') {
            const auto at = std::find(SPECIAL_NAMES.begin(), SPECIAL_NAMES.end(), name);
            return {Operand::special, static_cast<u64>(at - SPECIAL_NAMES.begin()), name};
        }
        if (name == "WARP_SZ") return value(LANES);
        if (const Name* variable = find(name, scope_, Operand::local))
            return {Operand::local, 0, name, variable->number};
        if (const Name* parameter = find(name, scope_, Operand::value))
            return value(parameter->number);
        for (const SharedVariable& variable : kernel_.shared)
            if (variable.name == name) return value(variable.offset);
        const Program& program = *kernel_.program;
        if (const auto function = program.numbers.find(name); function != program.numbers.end())
            return value(window(FUNCTION_WINDOW) + function_in(kernel_, function->second).number);
        if (const auto place = program.places.find(name); place != program.places.end()) {
            const Variable& variable = program.variables[place->second];
            if (variable.space == "shared") return value(shared(variable));
            if (variable.address) return value(variable.address);
        }
        return {Operand::label, 0, name};
    }

    /// A name or a number, with what is added to it.
    Operand sum(Tokens& tokens) {
        const bool is_negated = tokens.accept("!"), is_negative = tokens.accept("-");
        Operand found = named(tokens.take());
        found.is_negated = is_negated;
        if (is_negative) found.number = 0 - found.number;
        while (tokens.peek() == "+" || tokens.peek() == "-") {
            const bool subtracts = (tokens.take() == "-") != tokens.accept("-");
            const u64 more = number(tokens.take());
            found.offset += static_cast<s64>(subtracts ? 0 - more : more);
        }
        if (found.is == Operand::value)
            found.number += static_cast<u64>(std::exchange(found.offset, 0));
        return found;
    }

    struct Operands {
        std::vector<Operand> all;
        int vector = 0, vector_at = 0;  // the elements of the first vector, and where it is
    };

    /// Operands between commas. Those of vectors follow each other.
    void operands(Tokens& tokens, Operands& found) {
        do {
            const std::size_t start = found.all.size();
            if (tokens.accept("{")) {
                operands(tokens, found);
                tokens.accept("}");
                if (!found.vector) {
                    found.vector = static_cast<int>(found.all.size() - start);
                    found.vector_at = static_cast<int>(start);
                }
            } else if (tokens.accept("[")) {
                operands(tokens, found);
                tokens.accept("]");
                found.all[start].is_address = true;
            } else {
                do found.all.push_back(sum(tokens));
                while (tokens.accept("|"));
            }
        } while (tokens.accept(","));
    }

    /// The offset of a variable in shared memory.
    u64 shared(const Variable& variable) {
        for (const SharedVariable& known : kernel_.shared)
            if (known.name == variable.name) return known.offset;
        // The dynamic memory comes after all variables, whose sizes are not known yet.
        if (variable.bytes == 0) {
            kernel_.shared.push_back({variable.name, DYNAMIC, 0});
            return DYNAMIC;
        }
        const u64 align = variable.align;
        const u64 offset = (kernel_.shared_bytes + align - 1) / align * align;
        kernel_.shared.push_back({variable.name, offset, variable.bytes});
        kernel_.shared_bytes = offset + variable.bytes + kernel_.gap;
        kernel_.static_bytes = (kernel_.static_bytes + align - 1) / align * align + variable.bytes;
        return offset;
    }

    /// The place of a number, 32 times; of a mask for a predicate.
    Place constant(u64 value, u32 bytes) {
        const auto [found, is_new] = kernel_.constant_places.try_emplace(
            {value, bytes}, place(static_cast<u32>(kernel_.constants.size() * 8), CONSTANTS));
        if (is_new) {
            kernel_.constants.resize(kernel_.constants.size() + LANES);
            kernel_.set_constant(found->second, bytes == 1 ? (value ? ~0ull : 0) : value, bytes);
        }
        return found->second;
    }

    // ---- instructions ----

    void instruction(string_view text) {
        Inst inst;
        inst.ptx_line = line_;
        inst.file = file_;
        inst.line = source_line_;
        inst.function = &function_;
        inst.guard = place(0, NOWHERE);
        Tokens tokens(text);
        if (tokens.accept("@")) {
            inst.flip = tokens.accept("!") ? ALL : 0;
            const Name* reg = find(string(tokens.take()), scope_, Operand::reg);
            if (!reg) refuse(line_, "an unknown predicate: " + string(text));
            inst.guard = place(reg->number, FRAME);
        }
        string opcode(tokens.take());
        for (std::size_t k; (k = opcode.find("::")) != string::npos;) opcode.replace(k, 2, "_");
        std::vector<string> words;
        for (std::size_t from = 0, to; from < opcode.size(); from = to + 1) {
            to = std::min(opcode.find('.', from), opcode.size());
            words.push_back(opcode.substr(from, to - from));
        }
        if (words[0] == "pragma") return;
        if (words[0] == "call") return call(inst, tokens, text);
        Operands found;
        if (!tokens.is_end()) operands(tokens, found);
        rename(words, found);
        if (found.all.size() > MOST_OPERANDS) refuse(line_, "too many operands: " + string(text));
        if (!find_row(words, inst))
            refuse(line_, "the machine does not know the instruction: " + string(text));
        place_operands(inst, found.all, text);
    }

    /// Give an instruction the name of its row, if that is not its opcode.
    void rename(std::vector<string>& words, Operands& found) {
        std::vector<Operand>& all = found.all;
        if ((words[0] == "min" || words[0] == "max") && all.size() == 4) words[0] += "3";
        if (words[0] != "mov") return;
        if (found.vector)
            words[0] = (found.vector_at == 0 ? "unpack" : "pack") + std::to_string(found.vector);
        if (all.size() != 2) return;
        const Operand from = all[1];
        if (from.is == Operand::local) {  // the address of a local variable
            words = {"add", "u64"};
            all = {all[0], {Operand::reg, 0}, {Operand::value, static_cast<u64>(from.offset)}};
        } else if (from.is == Operand::special && from.number < SPECIAL_NAMES.size()) {
            // The values have 32 bits.
            const string bits = words.back().substr(1);
            if (bits != "32") words = {"cvt", "u" + bits, "u32"};
        } else if (from.is == Operand::special) {
            words = {"special." + from.name.substr(1)};
            all.pop_back();
        }
    }

    /// The letters of the shape of a row with this number of operands.
    static string shape_of(const Inst& inst, std::size_t operands) {
        const string& all = inst.row->shape;
        for (std::size_t from = 0, to; from < all.size(); from = to + 1) {
            to = std::min(all.find(' ', from), all.size());
            string shape;
            for (std::size_t k = from; k < to; ++k)
                if (all[k] == '*')
                    shape.append(inst.vector - 1u, all[k - 1]);
                else
                    shape += all[k];
            if (shape.size() == operands + 1) return shape;
        }
        return "";
    }

    void place_operands(Inst& inst, const std::vector<Operand>& all, string_view text) {
        const string shape = shape_of(inst, all.size());
        if (shape.empty()) refuse(line_, "the number of operands: " + string(text));
        Defined defined;
        bool is_source = false, is_wide = false;
        int addresses = 0, widths = 0;
        for (const char letter : shape) {
            if (letter == ':') {
                is_source = true;
                continue;
            }
            const Operand& one = all[inst.count];
            Place& to = inst.op[inst.count];
            if (one.is_negated) inst.negated |= 1u << inst.count;
            const u32 natural = width_of(letter);
            u32 width = natural;
            if (one.is == Operand::reg) {
                width = static_cast<u32>(widths_[one.number]);
                if (strchr("hwd", letter) ? width < natural : natural && natural != width)
                    refuse(line_,
                           "a register of the wrong size, " + one.name + ": " + string(text));
                to = place(static_cast<u32>(one.number), FRAME);
                (is_source ? defined.uses : defined.defines)
                    .push_back(static_cast<u32>(one.number));
            } else if (letter == 'l' && one.is == Operand::label) {
                jumps_.push_back({function_.code.size(), one.name, scope_, line_});
            } else if (letter == 't') {
                switches_.push_back({function_.code.size(), one.name});
            } else if (one.is == Operand::special && one.number < SPECIAL_NAMES.size()) {
                to = place(static_cast<u32>(one.number) * 4 * LANES, SPECIALS);
            } else if (one.is == Operand::local && letter == 'a') {
                to = place(0, FRAME);
                inst.space = Space::local;
            } else if (one.is == Operand::value) {
                to = constant(one.number, width = letter == 'a' ? 8 : natural);
            } else if (one.is == Operand::nothing) {
                to = place(0, NOWHERE);
            } else {
                refuse(line_, "the machine does not know " + one.name + ": " + string(text));
            }
            if (letter == 'a')
                inst.address[addresses++] = {inst.count, static_cast<u8>(width), one.offset};
            if (strchr("hwd", letter) && widths < 2) {
                is_wide |= width > natural;
                inst.widths[widths++] = static_cast<u8>(width);
            }
            ++inst.count;
        }
        if (!is_entry_ && inst.space == Space::param) inst.space = Space::local;
        choose_run(inst, is_wide);
        add(inst, std::move(defined));
    }

    /// The bytes of a register for a letter; 0 for any.
    static u32 width_of(char letter) {
        if (letter == 'p') return 1;
        return strchr("2h", letter) ? 2 : strchr("4w", letter) ? 4 : strchr("8d", letter) ? 8 : 0;
    }

    void add(const Inst& inst, Defined&& found) {
        if ((inst.guard & 3) == FRAME) {
            found.uses.push_back(inst.guard >> 2);
            // Lanes without the guard keep the value.
            found.uses.insert(found.uses.end(), found.defines.begin(), found.defines.end());
        }
        function_.code.push_back(inst);
        defined_.push_back(std::move(found));
    }

    /// (result), function, (arguments), prototype
    void call(Inst& inst, Tokens& tokens, string_view text) {
        auto made = std::make_unique<Call>();
        const auto variables = [&](std::vector<Copied>& found) {
            if (!tokens.accept("(")) return;
            while (!tokens.accept(")")) {
                const string name(tokens.take());
                const Name* own = find(name, scope_, Operand::local);
                if (!own) refuse(line_, "a call with a register as an argument: " + string(text));
                found.push_back({own->number, 0, own->bytes});
                tokens.accept(",");
            }
            tokens.accept(",");
        };
        variables(made->out);
        const string target(tokens.take());
        tokens.accept(",");
        variables(made->in);
        const Operand where = named(target);
        const auto& numbers = kernel_.program->numbers;
        find_row({where.is == Operand::reg ? "call_address" : "call"}, inst);
        if (const auto known = numbers.find(target); known != numbers.end())
            made->callee = &function_in(kernel_, known->second);
        else if (where.is != Operand::reg)
            inst.run = machine_function(target, *made);
        if (!inst.run) refuse(line_, "the machine does not have the function " + target);
        inst.call = made.get();
        kernel_.calls.push_back(std::move(made));
        place_operands(inst, where.is == Operand::reg ? std::vector{where} : std::vector<Operand>{},
                       text);
    }

    /// The instruction of a label.
    const Inst* resolve(const Jump& jump) {
        if (const Name* found = find(jump.label, jump.scope, Operand::label))
            return function_.code.data() + found->number;
        refuse(jump.line, "an unknown label, " + jump.label);
    }
};

/// Bytes of local memory that the calls of a function need; more if it calls itself.
u64 stack_of(const Function& function, std::unordered_map<const Function*, u64>& known) {
    constexpr u64 RECURSIVE_STACK = 1 << 16;
    const auto [found, is_new] = known.try_emplace(&function, RECURSIVE_STACK);
    if (!is_new) return found->second;
    u64 most = 0;
    for (const Inst& inst : function.code) {
        if (!inst.call) continue;
        const bool is_by_address = inst.count == 1;
        if (inst.call->callee) most = std::max(most, stack_of(*inst.call->callee, known));
        if (is_by_address) most = std::max(most, RECURSIVE_STACK);
    }
    return known[&function] = aligned(function.local_bytes, 16) + most;
}

/// Replace the mark of the dynamic memory, when its offset is known.
void place_dynamic_memory(Kernel& kernel) {
    const u64 offset = (kernel.shared_bytes + 15) / 16 * 16;
    for (SharedVariable& variable : kernel.shared)
        if (variable.offset == DYNAMIC) variable.offset = offset;
    for (const auto& [key, place] : kernel.constant_places)
        if (key.first - DYNAMIC < MOST_DYNAMIC)
            kernel.set_constant(place, key.first - DYNAMIC + offset, key.second);
}

}  // namespace

void Kernel::set_constant(Place place, u64 value, u32 bytes) {
    u8* to = reinterpret_cast<u8*>(constants.data()) + (place >> 2);
    for (u32 l = 0; l < LANES; ++l) std::memcpy(to + l * bytes, &value, bytes);
}

std::unique_ptr<Kernel> load(const Program& program, const string& entry, u64 gap,
                             const char* hidden_files) {
    auto kernel = std::make_unique<Kernel>();
    for (Tokens tokens(hidden_files); !tokens.is_end(); tokens.accept(","))
        kernel->hidden_files.push_back(static_cast<int>(number(tokens.take())));
    kernel->gap = gap;
    kernel->program = &program;
    kernel->functions.resize(program.functions.size());
    kernel->entry = &function_in(*kernel, program.numbers.at(entry));
    const FunctionText& text = program.functions[kernel->entry->number];
    if (text.cluster.count() > 1)
        throw Error("clusters of " + std::to_string(text.cluster.count()) +
                    " blocks, but the emulator has clusters of a single block only");
    for (std::size_t k = 0; k < kernel->by_index.size(); ++k) {  // grows with each call
        Reader(*kernel, *kernel->by_index[k], program.functions[kernel->by_index[k]->number]);
        // A call by address may call each function whose address is in a variable.
        const auto is_by_address = [](const auto& call) { return !call->callee; };
        if (std::any_of(kernel->calls.begin(), kernel->calls.end(), is_by_address))
            for (std::size_t other = 0; other < program.functions.size(); ++other)
                if (program.functions[other].is_in_variable) function_in(*kernel, other);
    }
    place_dynamic_memory(*kernel);
    for (Function* function : kernel->by_index)
        for (Inst& inst : function->code) {
            inst.site = static_cast<u32>(kernel->by_site.size());
            kernel->by_site.push_back(&inst);
        }
    for (auto& made : kernel->calls)
        if (const Function* callee = made->callee) {
            if (made->in.size() > callee->parameters.size())
                throw Error("a call of " + callee->name + " with too many arguments");
            for (Copied& copied : made->out) copied.callee = callee->result.callee;
        }
    std::unordered_map<const Function*, u64> known;
    const u64 stack_bytes = stack_of(*kernel->entry, known);
    if (stack_bytes > MOST_LOCAL_BYTES)
        throw Error("needs " + std::to_string(stack_bytes) +
                    " bytes of local memory for each thread, but a GPU has at most " +
                    std::to_string(MOST_LOCAL_BYTES));
    kernel->stack_bytes = static_cast<u32>(stack_bytes);
    return kernel;
}

}  // namespace machine
