// printf, malloc, free and assert. Their arguments are in local memory.

#include <cstring>

#include "functions.h"

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
        std::erase_if(format, [](char c) { return std::strchr("hlzjtL", c); });
        const auto print = [&](auto value) {
            char buffer[512];
            std::snprintf(buffer, sizeof(buffer), format.c_str(), value);
            return std::string(buffer);
        };
        if (letter == '%') return "%";
        if (letter == 'c') return print(next<s32>());
        if (letter == 's') return print(text_at(warp_, inst_, lane_, next<u64>()).c_str());
        if (letter == 'p') return print(reinterpret_cast<void*>(next<u64>()));
        if (!std::strchr("diuxXo", letter)) return print(next<double>());
        const bool is_signed = letter == 'd' || letter == 'i';
        format.insert(format.size() - 1, "ll");
        if (is_signed) return print(is_long ? next<long long>() : next<s32>() + 0ll);
        return print(is_long ? next<unsigned long long>() : next<u32>() + 0ull);
    }

  private:
    Warp& warp_;
    const Inst& inst_;
    u32 lane_;
    u64 address_;
};

void print(Warp& w, const Inst& i, u32 lane) {
    const std::string format = text_at(w, i, lane, argument<u64>(w, i, lane, 0));
    Values values(w, i, lane, argument<u64>(w, i, lane, 1));
    std::string text;
    for (std::size_t k = 0; k < format.size();) {
        const std::size_t percent = std::min(format.find('%', k), format.size());
        text += format.substr(k, percent - k);
        if ((k = percent) == format.size()) break;
        const std::size_t end = format.find_first_of("diuxXocspfFeEgGaA%", k + 1);
        if (end == std::string::npos) {
            text += format.substr(k);
            break;
        }
        text += values.formatted(format.substr(k, end + 1 - k));
        k = end + 1;
    }
    w.launch().output += text;
    give_back<s32>(w, i, lane, 0);
}

void fail_assertion(Warp& w, const Inst& i, u32 lane) {
    w.fail(i, lane, "assertion failed: %s",
           text_at(w, i, lane, argument<u64>(w, i, lane, 0)).c_str());
}

/// The heap of device code: each part has its size and whether it is used before it. The last part
/// has no size: it is the rest.
struct Part {
    u64 bytes, used;
};

void allocate(Warp& w, const Inst& i, u32 lane) {
    const Request& request = w.launch().request;
    const u64 end = request.heap + request.heap_bytes;
    const u64 bytes = std::max<u64>((argument<u64>(w, i, lane, 0) + 15) / 16 * 16, 16);
    for (u64 at = request.heap; bytes <= request.heap_bytes && at + sizeof(Part) + bytes <= end;) {
        Part& part = *reinterpret_cast<Part*>(at);
        const u64 start = at + sizeof(Part);
        if (!part.used && (!part.bytes || part.bytes >= bytes)) {
            if (!part.bytes) {
                part.bytes = bytes;
                if (start + bytes + sizeof(Part) <= end)
                    *reinterpret_cast<Part*>(start + bytes) = {0, 0};
            }
            part.used = 1;
            return give_back<u64>(w, i, lane, start);
        }
        if (!part.bytes) break;
        at = start + part.bytes;
    }
    give_back<u64>(w, i, lane, 0);
}

void release(Warp& w, const Inst& i, u32 lane) {
    const Request& request = w.launch().request;
    const u64 address = argument<u64>(w, i, lane, 0);
    if (!address) return;
    for (u64 at = request.heap; at + sizeof(Part) < request.heap + request.heap_bytes;) {
        Part& part = *reinterpret_cast<Part*>(at);
        if (at + sizeof(Part) == address && part.used) {
            part.used = 0;
            return;
        }
        if (!part.bytes) break;
        at += sizeof(Part) + part.bytes;
    }
    w.fail(i, lane, "frees address 0x%llx, which malloc() has not returned",
           static_cast<unsigned long long>(address));
}

/// One lane after the other.
template <void (*function)(Warp&, const Inst&, u32)>
void each_lane(Warp& w, const Inst& i) {
    const std::lock_guard guard(w.launch().lock);
    for (u32 rest = w.mask; rest; rest &= rest - 1) function(w, i, static_cast<u32>(lowest(rest)));
}

}  // namespace

Run machine_function(const std::string& name) {
    if (name == "vprintf") return each_lane<print>;
    if (name == "__assertfail") return each_lane<fail_assertion>;
    if (name == "malloc") return each_lane<allocate>;
    return name == "free" ? each_lane<release> : nullptr;
}

}  // namespace machine
