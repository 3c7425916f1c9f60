// Programs, and what the readers of PTX share: names, numbers and declarations.

#pragma once

#include <array>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "machine.h"

namespace machine {

using std::string;
using std::string_view;

/// Sizes in x, y and z; all are 0 if a program has none.
struct Extent {
    std::array<u32, 3> sizes{};
    u64 count() const { return u64{sizes[0]} * sizes[1] * sizes[2]; }
};

/// A function of a program, whose body is read when a kernel needs it.
struct FunctionText {
    string name;
    string_view result, parameters, body;
    int line = 0;
    Extent cluster, most_threads, threads;  // of an entry: directives of its declaration
    bool is_entry = false;
    bool is_in_variable = false;  // its address
};

/// An address in the data of a variable.
struct Link {
    u64 offset;
    string name;
    u64 more;  // is added
};

struct Variable {
    string name, space;  // "global", "const" or "shared"
    u64 bytes, align;
    bool is_extern;
    std::vector<u8> data = {};  // the first bytes; the others are 0
    std::vector<Link> links = {};
    u64 address = 0;  // 0 in shared memory
};

/// The declarations of a PTX text.
struct Program {
    string text;  // without comments
    std::vector<FunctionText> functions;
    std::vector<Variable> variables;
    std::unordered_map<string, std::size_t> numbers, places;  // of functions, of variables
    std::map<int, string> files;
};

/// Read a program, or a kernel of it. They throw exceptions for what is not known.
std::unique_ptr<Program> read_program(const char* text);
std::unique_ptr<Kernel> load(const Program& program, const std::string& entry, u64 gap,
                             const char* hidden_files);
/// Let variables have these addresses, and give new variables their first values.
void place_variables(Program& program, const u64* addresses, const char* is_new);
/// Descriptions for Python: a line for each thing, with its kind first.
std::string described(const Program& program);
std::string described(const Kernel& kernel);
std::string described_sites(const Kernel& kernel);

/// Write words with tabs between them, as a line.
template <class... Words>
void write_row(std::ostream& out, const char* kind, const Words&... words) {
    out << kind;
    ((out << '\t' << words), ...);
    out << '\n';
}

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] inline void refuse(int line, const string& what) {
    throw Error("PTX line " + std::to_string(line) + ": " + what);
}

inline bool is_of_name(char c) {
    return std::isalnum(static_cast<u8>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

inline u64 number(string_view view) {
    const string text(view);
    const bool is_float = text.size() > 2 && text[0] == '0' && strchr("fFdD", text[1]);
    return is_float ? std::stoull(text.substr(2), nullptr, 16) : std::stoull(text, nullptr, 0);
}

/// Names, numbers and signs, one after the other. ``::`` is part of a name.
class Tokens {
  public:
    explicit Tokens(string_view text) : text_(text) { next(); }

    string_view peek() const { return token_; }
    bool is_end() const { return token_.empty(); }
    int line() const { return line_; }
    /// Where the next token is.
    const char* at() const { return token_.data(); }
    string_view take() {
        const string_view found = token_;
        next();
        return found;
    }
    bool accept(string_view token) {
        if (token_ != token) return false;
        next();
        return true;
    }

  private:
    string_view text_, token_;
    int line_ = 1;

    void next() {
        std::size_t start = 0;
        for (; start < text_.size() && std::isspace(static_cast<u8>(text_[start])); ++start)
            line_ += text_[start] == '\n';
        std::size_t end = start;
        while (end < text_.size() && (is_of_name(text_[end]) || text_.compare(end, 2, "::") == 0))
            end += text_[end] == ':' ? 2 : 1;
        end = std::min(std::max(end, start + 1), text_.size());
        token_ = text_.substr(start, end - start);
        text_.remove_prefix(end);
    }
};

/// The bytes of a type; 0 for another word.
inline u32 bytes_of(string_view type) {
    if (type == ".pred") return 1;
    if (type == ".texref" || type == ".surfref") return 8;
    if (type == ".f16x2" || type == ".bf16x2") return 4;
    if (type == ".bf16") return 2;
    const bool has_bits =
        type.size() > 2 && strchr("bsuf", type[1]) && std::isdigit(static_cast<u8>(type[2]));
    return has_bits ? static_cast<u32>(std::atoi(string(type.substr(2)).c_str())) / 8 : 0;
}

struct Declared {
    string name;
    u64 bytes;
    u32 align, element;
};

constexpr u64 TOO_MANY = 1 << 30, MOST_BYTES = u64{1} << 31;

/// .align 8 .b8 name[16], with other words before it.
inline Declared declaration(Tokens& tokens, int line) {
    Declared found{"", 1, 0, 0};
    bool is_pointer = false;  // what follows describes its target
    while (!tokens.is_end() && tokens.peek()[0] == '.') {
        const string_view word = tokens.take();
        if (word == ".ptr") is_pointer = true;
        if (word == ".v2" || word == ".v4") found.bytes = word == ".v2" ? 2 : 4;
        while (word == ".attribute" && !tokens.is_end() && !tokens.accept(")")) tokens.take();
        if (word == ".align") {
            const u32 align = static_cast<u32>(number(tokens.take()));
            if (!is_pointer) found.align = align;
        }
        if (const u32 bytes = bytes_of(word)) found.element = bytes;
    }
    if (!found.element) refuse(line, "a declaration without a type: " + string(tokens.peek()));
    found.name = tokens.take();
    found.bytes *= found.element;
    found.align = std::max(found.align, found.element);
    while (tokens.accept("[")) {
        const u64 count = tokens.peek() == "]" ? 0 : number(tokens.take());
        found.bytes = std::min(found.bytes * std::min(count, MOST_BYTES), MOST_BYTES);
        tokens.take();
    }
    return found;
}

inline std::vector<Declared> declarations(string_view text, int line) {
    std::vector<Declared> found;
    for (Tokens tokens(text); !tokens.is_end(); tokens.accept(","))
        found.push_back(declaration(tokens, line));
    return found;
}

}  // namespace machine
