// printf, malloc, free and assert. Their arguments are in local memory.

#include <algorithm>
#include <cstring>

#include "machine.h"

namespace machine {

namespace {

u8* local_memory(Warp& w, u32 lane) {
    return w.local.data() + w.stride * lane;
}

/// A value at a generic address of a lane.
template <class T>
T value_at(Warp& w, const Inst& i, u32 lane, u64 address) {
    const u64 offset = address & (window(1) - 1);
    const u8* from = nullptr;
    if (address >> WINDOW_BITS == LOCAL_WINDOW) {
        if (offset + sizeof(T) <= w.stride) from = local_memory(w, lane) + offset;
    } else if (address >> WINDOW_BITS == SHARED_WINDOW) {
        if (offset + sizeof(T) <= w.block->shared_bytes) from = w.block->shared + offset;
    } else if (const Region* region = w.launch().find(address);
               region && address + sizeof(T) <= region->high) {
        from = reinterpret_cast<const u8*>(address);
    }
    if (!from)
        w.fail(i, lane, "reads a text at address 0x%llx", static_cast<unsigned long long>(address));
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
}

std::string text_at(Warp& w, const Inst& i, u32 lane, u64 address) {
    std::string text;
    while (const char c = value_at<char>(w, i, lane, address++)) text += c;
    return text;
}

template <class T>
T argument(Warp& w, const Inst& i, u32 lane, std::size_t k) {
    T value;
    std::memcpy(&value, local_memory(w, lane) + w.frame->local_base + i.call->in[k].caller,
                sizeof(T));
    return value;
}

template <class T>
void give_back(Warp& w, const Inst& i, u32 lane, T value) {
    if (!i.call->out.empty())
        std::memcpy(local_memory(w, lane) + w.frame->local_base + i.call->out[0].caller, &value,
                    sizeof(T));
}

/// The values of a printf, each at a multiple of its size.
class Values {
  public:
    Values(Warp& w, const Inst& i, u32 lane, u64 address)
        : warp_(w), inst_(i), lane_(lane), address_(address) {}
    template <class T>
    T next() {
        address_ = (address_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
        const T value = value_at<T>(warp_, inst_, lane_, address_);
        address_ += sizeof(T);
        return value;
    }
    /// A value in a format that begins with % and ends with a letter.
    std::string formatted(std::string format) {
        for (std::size_t star; (star = format.find('*')) != std::string::npos;)
            format.replace(star, 1, std::to_string(next<s32>()));
        const char letter = format.back();
        const bool is_long = format.find_first_of("lzjt") != std::string::npos;
        const auto halvings = std::count(format.begin(), format.end(), 'h');
        const int unused = halvings == 2 ? 56 : halvings == 1 ? 48 : 0;  // bits of 64
        std::erase_if(format, [](char c) { return std::strchr("hlzjtL", c); });
        const auto print = [&](auto value) {
            const int length = std::snprintf(nullptr, 0, format.c_str(), value);
            std::string text(static_cast<std::size_t>(std::clamp(length, 0, 1 << 16)), ' ');
            std::snprintf(text.data(), text.size() + 1, format.c_str(), value);
            return text;
        };
        if (letter == '%') return "%";
        if (letter == 'c') return print(next<s32>());
        if (letter == 's') return print(text_at(warp_, inst_, lane_, next<u64>()).c_str());
        if (letter == 'p') return print(reinterpret_cast<void*>(next<u64>()));
        if (!std::strchr("diuxXo", letter)) return print(next<double>());
        const bool is_signed = letter == 'd' || letter == 'i';
        format.insert(format.size() - 1, "ll");
        const s64 value = is_long ? next<s64>() : is_signed ? next<s32>() : s64{next<u32>()};
        if (is_signed) return print(static_cast<long long>(value << unused) >> unused);
        return print(static_cast<unsigned long long>(value) << unused >> unused);
    }

  private:
    Warp& warp_;
    const Inst& inst_;
    u32 lane_;
    u64 address_;
};

constexpr const char* CONVERSIONS = "diuxXocspfFeEgGaA%";

void print(Warp& w, const Inst& i, u32 lane) {
    const std::string format = text_at(w, i, lane, argument<u64>(w, i, lane, 0));
    Values values(w, i, lane, argument<u64>(w, i, lane, 1));
    std::string text;
    for (std::size_t k = 0; k < format.size();) {
        const std::size_t percent = std::min(format.find('%', k), format.size());
        text += format.substr(k, percent - k);
        if ((k = percent) == format.size()) break;
        const std::size_t last = format.find_first_not_of("-+ #0123456789.*hlzjtL", k + 1);
        const bool is_known = last != std::string::npos && std::strchr(CONVERSIONS, format[last]);
        const std::size_t end = is_known ? last + 1 : k + 1;
        text += is_known ? values.formatted(format.substr(k, end - k)) : "%";
        k = end;
    }
    w.launch().output += text;
    give_back<s32>(w, i, lane, 0);
}

void fail_assertion(Warp& w, const Inst& i, u32 lane) {
    w.fail(i, lane, "assertion failed: %s",
           text_at(w, i, lane, argument<u64>(w, i, lane, 0)).c_str());
}

/// The heap of device code: the bytes of what is allocated, by address. All launches share it.
struct Heap {
    std::mutex lock;
    std::map<u64, u64> parts;
} heap;

/// The first gap that is large enough; 0 if there is none.
void allocate(Warp& w, const Inst& i, u32 lane) {
    const Request& request = w.launch().request;
    const u64 bytes = std::max<u64>(argument<u64>(w, i, lane, 0), 1);
    const std::lock_guard guard(heap.lock);
    u64 at = request.heap;
    for (const auto& [start, used] : heap.parts) {
        if (bytes <= start - at) break;
        at = (start + used + 15) / 16 * 16;
    }
    const u64 end = request.heap + request.heap_bytes;
    const bool fits = at < end && bytes <= end - at;
    if (fits) heap.parts[at] = bytes;
    give_back<u64>(w, i, lane, fits ? at : 0);
}

void release(Warp& w, const Inst& i, u32 lane) {
    const u64 address = argument<u64>(w, i, lane, 0);
    const std::lock_guard guard(heap.lock);
    if (address && !heap.parts.erase(address))
        w.fail(i, lane, "frees address 0x%llx, which malloc() has not returned",
               static_cast<unsigned long long>(address));
}

/// One lane after the other.
template <void (*function)(Warp&, const Inst&, u32)>
void each_lane(Warp& w, const Inst& i) {
    const std::lock_guard guard(w.launch().lock);
    for (const u32 l : Lanes{w.mask}) function(w, i, l);
}

}  // namespace

Run machine_function(const std::string& name, const Call& call) {
    struct Known {
        const char* name;
        Run run;
        std::size_t arguments;
        u32 result;  // its least bytes
    };
    constexpr Known KNOWN[] = {{"vprintf", each_lane<print>, 2, 4},
                               {"__assertfail", each_lane<fail_assertion>, 1, 0},
                               {"malloc", each_lane<allocate>, 1, 8},
                               {"free", each_lane<release>, 1, 0}};
    for (const Known& one : KNOWN) {
        bool fits = name == one.name && call.in.size() >= one.arguments;
        for (std::size_t k = 0; fits && k < one.arguments; ++k) fits = call.in[k].bytes >= 8;
        for (const Copied& result : call.out) fits &= result.bytes >= one.result;
        if (fits) return one.run;
    }
    return nullptr;
}

}  // namespace machine
