// Reads the declarations of a program: its functions, variables and files.

#include <algorithm>

#include "program.h"

namespace machine {

namespace {

/// Replace comments and texts by spaces, and keep the names of the source files.
void blank(string& text, std::map<int, string>& files) {
    for (std::size_t at = 0, end; at < text.size(); at = end) {
        end = at + 1;
        if (text.compare(at, 2, "//") == 0) {
            end = text.find('\n', at);
        } else if (text.compare(at, 2, "/*") == 0) {
            end = text.find("*/", at + 2);
            end += end == string::npos ? 0 : 2;
        } else if (text[at] == '"') {
            end = text.find_first_of("\"\n", at + 1);
            const string name = text.substr(at + 1, end - at - 1);
            const std::size_t line = text.rfind('\n', at) + 1;
            int number = 0;
            if (std::sscanf(text.substr(line, at - line).c_str(), " .file %d", &number) == 1)
                files[number] = name;
            end += end != string::npos && text[end] == '"';
        } else {
            continue;
        }
        end = std::min(end, text.size());
        std::replace_if(
            text.begin() + static_cast<std::ptrdiff_t>(at),
            text.begin() + static_cast<std::ptrdiff_t>(end), [](char c) { return c != '\n'; }, ' ');
    }
}

/// Reads declarations, one after the other.
class ProgramReader {
  public:
    explicit ProgramReader(Program& program) : program_(program), tokens_(program.text) {
        bool has_target = false, is_extern = false;
        while (!tokens_.is_end() && tokens_.peek() != ".section") {  // debug information is last
            const string_view word = tokens_.take();
            has_target |= word == ".target";
            if (word == ".extern")
                is_extern = true;
            else if (word == ".entry" || word == ".func")
                read_function(word == ".entry");
            else if (word == ".global" || word == ".const" || word == ".shared")
                read_variable(string(word.substr(1)), is_extern);
            else
                continue;
            is_extern &= word == ".extern";
        }
        if (!has_target) throw Error("PTX must have a .target, such as '.target sm_90'");
    }

  private:
    Program& program_;
    Tokens tokens_;

    /// What is between two signs, if the first comes next.
    string_view enclosed(string_view open, string_view close) {
        if (tokens_.peek() != open) return {};
        const int line = tokens_.line();
        const char* const start = tokens_.at() + 1;
        for (int depth = 0;; tokens_.take()) {
            if (tokens_.is_end()) refuse(line, "a " + string(open) + " that is never closed");
            depth += (tokens_.peek() == open) - (tokens_.peek() == close);
            if (!depth) return {start, static_cast<std::size_t>(tokens_.take().data() - start)};
        }
    }

    void read_function(bool is_entry) {
        FunctionText made;
        made.is_entry = is_entry;
        made.result = enclosed("(", ")");
        made.name = tokens_.take();
        if (made.name.empty() || !is_of_name(made.name[0]))
            refuse(tokens_.line(), "a function without a name");
        made.parameters = enclosed("(", ")");
        while (!tokens_.is_end() && tokens_.peek() != "{" && tokens_.peek() != ";") {
            const string_view word = tokens_.take();
            Extent* const found = word == ".reqnctapercluster" ? &made.cluster
                                  : word == ".maxntid"         ? &made.most_threads
                                  : word == ".reqntid"         ? &made.threads
                                                               : nullptr;
            if (!found) continue;
            found->sizes = {1, 1, 1};
            for (u32& size : found->sizes) {
                size = static_cast<u32>(number(tokens_.take()));
                if (!tokens_.accept(",")) break;
            }
        }
        made.line = tokens_.line();
        if (tokens_.peek() != "{") return;  // a declaration without a body
        made.body = enclosed("{", "}");
        program_.numbers[made.name] = program_.functions.size();
        program_.functions.push_back(made);
    }

    void read_variable(const string& space, bool is_extern) {
        const Declared found = declaration(tokens_, tokens_.line());
        Variable made{found.name, space, found.bytes, found.align, is_extern};
        while (!tokens_.is_end() && !tokens_.accept(";")) {
            const bool is_negative = tokens_.accept("-");
            const string_view word = tokens_.take();
            if (!is_of_name(word[0]) || word == "generic") continue;
            u64 value = 0;
            if (std::isdigit(static_cast<u8>(word[0])))
                value = is_negative ? 0 - number(word) : number(word);
            else
                made.links.push_back({made.data.size(), string(word), 0});
            tokens_.accept(")");
            if (tokens_.accept("+")) made.links.back().more = number(tokens_.take());
            for (u32 k = 0; k < found.element; ++k)
                made.data.push_back(k < 8 ? static_cast<u8>(value >> 8 * k) : 0);
        }
        program_.places[made.name] = program_.variables.size();
        program_.variables.push_back(made);
    }
};

}  // namespace

std::unique_ptr<Program> read_program(const char* text) {
    auto made = std::make_unique<Program>();
    made->text = text;
    blank(made->text, made->files);
    ProgramReader{*made};
    return made;
}

void place_variables(Program& program, const u64* addresses, const char* is_new) {
    for (Variable& variable : program.variables) {
        variable.address = *addresses++;
        if (*is_new++)
            std::copy(variable.data.begin(), variable.data.end(),
                      reinterpret_cast<u8*>(variable.address));
    }
    for (const Variable& variable : program.variables)
        for (const auto& [offset, name, more] : variable.links) {
            u64 value = 0;  // of a function without a body, such as a pure virtual one
            if (const auto known = program.numbers.find(name); known != program.numbers.end()) {
                value = window(FUNCTION_WINDOW) + known->second;
                program.functions[known->second].is_in_variable = true;
            } else if (const auto place = program.places.find(name);
                       place != program.places.end()) {
                value = program.variables[place->second].address + more;
            }
            if (variable.address)
                std::memcpy(reinterpret_cast<u8*>(variable.address) + offset, &value,
                            sizeof(value));
        }
}

string described(const Program& program) {
    std::ostringstream out;
    for (const auto& [number, name] : program.files) write_row(out, "file", number, name);
    for (const FunctionText& one : program.functions)
        write_row(out, "function", one.name, one.is_entry, one.line);
    for (const Variable& one : program.variables)
        write_row(out, "variable", one.name, one.space, one.bytes, one.align, one.is_extern);
    return out.str();
}

string described(const Kernel& kernel) {
    std::ostringstream out;
    write_row(out, "bytes", kernel.static_bytes, kernel.parameter_bytes);
    const FunctionText& text = kernel.program->functions[kernel.entry->number];
    for (const u64 most : {text.most_threads.count(), text.threads.count()})
        if (most) write_row(out, "most_threads", most);
    if (const auto& [x, y, z] = text.threads.sizes; x) write_row(out, "block", x, y, z);
    for (const Copied& one : kernel.entry->parameters)
        write_row(out, "parameter", one.callee, one.bytes);
    for (const SharedVariable& one : kernel.shared)
        write_row(out, "shared", one.name, one.offset, one.bytes);
    for (const Function* function : kernel.by_index)
        for (const u32 inst : function->undefined)
            write_row(out, "undefined", function->code[inst].site);
    return out.str();
}

string described_sites(const Kernel& kernel) {
    std::ostringstream out;
    for (const Inst* inst : kernel.by_site)
        write_row(out, "site", inst->ptx_line, inst->file, inst->line);
    return out.str();
}

}  // namespace machine
