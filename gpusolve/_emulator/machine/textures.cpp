// Textures and surfaces. Linear filters compute in float32 with fractions of 8 bits, as CUDA's
// programming guide says. Texels are checked to be in memory of the launch, but not for races.

#include "table.h"
#include "texture.h"

namespace machine {

namespace {

/// How many coordinates a geometry has, and what comes before them.
enum Geometry : u8 { LINE, PLANE, VOLUME, LINES, PLANES, CUBE };
constexpr const char* GEOMETRIES[] = {"1d", "2d", "3d", "a1d", "a2d", "cube"};
constexpr int DIMENSIONS[] = {1, 2, 3, 1, 2, 3}, OPERANDS[] = {1, 2, 4, 2, 4, 4};

bool has_layers(Geometry geometry) {
    return geometry == LINES || geometry == PLANES;
}

/// The memory of a lane's handle or texel.
template <class T>
const T& checked(Warp& w, const Inst& i, u32 lane, u64 address, u64 bytes = sizeof(T)) {
    const Region* region = w.launch().find(address);
    if (!region || address + bytes > region->high)
        w.fail(i, lane, "uses a handle or a texel at address 0x%llx, where no texture is",
               static_cast<unsigned long long>(address));
    return *reinterpret_cast<const T*>(address);
}

/// What the handle of a lane points to.
const Texture& texture_of(Warp& w, const Inst& i, u32 lane, u64 handle) {
    const Texture& found = checked<Texture>(w, i, lane, handle);
    const bool has_bits = found.bits == 8 || found.bits == 16 || found.bits == 32;
    if (!has_bits || !found.width || !found.height || !found.depth || found.channels > 4)
        w.fail(i, lane, "uses a handle at address 0x%llx, where no texture is",
               static_cast<unsigned long long>(handle));
    return found;
}

/// The place of a texel inside of the texture; -1 for the border.
s64 inside(s64 place, s64 size, AddressMode mode) {
    if (place >= 0 && place < size) return place;
    if (mode == BORDER) return -1;
    if (mode == CLAMP) return place < 0 ? 0 : size - 1;
    const s64 period = mode == WRAP ? size : 2 * size, rest = (place % period + period) % period;
    return rest < size ? rest : period - 1 - rest;
}

/// Reads the texels of a texture for a lane.
class Sampler {
  public:
    Sampler(Warp& w, const Inst& i, u32 lane, u64 handle, Geometry geometry)
        : warp_(w),
          inst_(i),
          lane_(lane),
          texture_(texture_of(w, i, lane, handle)),
          dimensions_(DIMENSIONS[geometry]) {}

    void choose_layer(s64 layer) { layer_ = std::clamp<s64>(layer, 0, texture_.depth - 1); }

    /// A channel of a texel, as a float or as the bits of an integer.
    template <class R>
    R channel(const s64* place, int k) const {
        const u32 sizes[] = {texture_.width, texture_.height, texture_.depth};
        s64 at[3] = {0, 0, layer_};
        for (int d = 0; d < dimensions_; ++d) {
            const auto mode = static_cast<AddressMode>(texture_.modes[d]);
            const bool repeats = mode == WRAP || mode == MIRROR;
            at[d] = inside(place[d], sizes[d],
                           repeats && !texture_.has_normalized_coordinates ? CLAMP : mode);
            if (at[d] < 0) return static_cast<R>(texture_.border[k]);
        }
        if (k >= texture_.channels) return 0;
        const u64 bytes = texture_.bits / 8;
        const u64 address =
            texture_.address + static_cast<u64>(at[2]) * texture_.slice +
            static_cast<u64>(at[1]) * texture_.pitch +
            (static_cast<u64>(at[0]) * texture_.channels + static_cast<u64>(k)) * bytes;
        const u8& first = checked<u8>(warp_, inst_, lane_, address, bytes);
        u32 bits = 0;
        std::memcpy(&bits, &first, bytes);
        if (texture_.kind == FLOAT_CHANNEL) {
            const float value = bytes == 2 ? float(std::bit_cast<Half>(static_cast<u16>(bits)))
                                           : std::bit_cast<float>(bits);
            return std::is_same_v<R, float> ? value : std::bit_cast<R>(value);
        }
        const u32 unused = 32 - texture_.bits;
        const bool is_signed = texture_.kind == SIGNED_CHANNEL;
        const s64 value = is_signed ? static_cast<s32>(bits << unused) >> unused : s64{bits};
        if (!std::is_same_v<R, float>) return static_cast<R>(value);
        const s64 largest = (1ll << (texture_.bits - is_signed)) - 1;
        if (texture_.reads_normalized) return std::max(static_cast<float>(value) / largest, -1.0f);
        return std::bit_cast<R>(static_cast<u32>(value));
    }

    /// The texel before each coordinate, and the weights of those after them.
    void locate(float* coordinates, s64* place, float* weights) const {
        const u32 sizes[] = {texture_.width, texture_.height, texture_.depth};
        for (int d = 0; d < dimensions_; ++d) {
            float x = coordinates[d];
            if (texture_.has_normalized_coordinates) x *= static_cast<float>(sizes[d]);
            place[d] = static_cast<s64>(std::floor(weights ? x - 0.5f : x));
            if (weights)
                weights[d] = std::rint((x - 0.5f - static_cast<float>(place[d])) * 256) / 256;
        }
    }

    template <class R>
    R sample(float* coordinates, int k) const {
        s64 place[3];
        float weights[3];
        locate(coordinates, place, texture_.is_linear ? weights : nullptr);
        if (!texture_.is_linear) return channel<R>(place, k);
        float sum = 0;
        for (int corner = 0; corner < 1 << dimensions_; ++corner) {
            s64 at[3];
            float weight = 1;
            for (int d = 0; d < dimensions_; ++d) {
                const bool is_after = corner >> d & 1;
                at[d] = place[d] + is_after;
                weight *= is_after ? weights[d] : 1 - weights[d];
            }
            if (weight != 0) sum += weight * static_cast<float>(channel<R>(at, k));
        }
        return static_cast<R>(sum);
    }

    /// The face of a cube in a direction, and the coordinates in it.
    void choose_face(float* direction) {
        const float x = direction[0], y = direction[1], z = direction[2];
        const float sizes[] = {std::fabs(x), std::fabs(y), std::fabs(z)};
        const int axis = static_cast<int>(std::max_element(sizes, sizes + 3) - sizes);
        const bool is_negative = std::signbit(direction[axis]);
        const float sign = is_negative ? -1.0f : 1.0f;
        layer_ = 2 * axis + is_negative;
        direction[0] = ((axis == 0 ? -sign * z : axis == 1 ? x : sign * x) / sizes[axis] + 1) / 2;
        direction[1] = ((axis == 1 ? sign * z : -y) / sizes[axis] + 1) / 2;
        dimensions_ = 2;
    }

  private:
    Warp& warp_;
    const Inst& inst_;
    u32 lane_;
    const Texture& texture_;
    int dimensions_;
    s64 layer_ = 0;
};

/// tex: four channels from a handle and its coordinates, of type C.
template <Geometry geometry, class R, class C>
void fetch(Warp& w, const Inst& i) {
    for (const u32 l : Lanes{w.mask}) {
        Sampler sampler(w, i, l, w.at<u64>(i.op[4])[l], geometry);
        int operand = 5;
        if (has_layers(geometry)) sampler.choose_layer(w.at<s32>(i.op[operand++])[l]);
        C coordinates[3];
        for (int d = 0; d < DIMENSIONS[geometry]; ++d) coordinates[d] = w.at<C>(i.op[operand++])[l];
        R values[4];
        if constexpr (std::is_same_v<C, float>) {
            if (geometry == CUBE) sampler.choose_face(coordinates);
            for (int k = 0; k < 4; ++k) values[k] = sampler.sample<R>(coordinates, k);
        } else {
            const s64 place[] = {coordinates[0], coordinates[1], coordinates[2]};
            for (int k = 0; k < 4; ++k) values[k] = sampler.channel<R>(place, k);
        }
        for (int k = 0; k < 4; ++k) w.at<R>(i.op[k])[l] = values[k];
    }
}

/// tld4: a channel of the four texels that a linear filter reads.
template <class R>
void gather(Warp& w, const Inst& i) {
    constexpr int X[] = {0, 1, 1, 0}, Y[] = {1, 1, 0, 0};
    for (const u32 l : Lanes{w.mask}) {
        const Sampler sampler(w, i, l, w.at<u64>(i.op[4])[l], PLANE);
        float coordinates[] = {w.at<float>(i.op[5])[l], w.at<float>(i.op[6])[l]}, weights[2];
        s64 place[2];
        sampler.locate(coordinates, place, weights);
        R values[4];
        for (int k = 0; k < 4; ++k) {
            const s64 at[] = {place[0] + X[k], place[1] + Y[k]};
            values[k] = sampler.channel<R>(at, i.mode);
        }
        for (int k = 0; k < 4; ++k) w.at<R>(i.op[k])[l] = values[k];
    }
}

template <u32 Texture::* size>
void query(Warp& w, const Inst& i) {
    for (const u32 l : Lanes{w.mask}) {
        w.at<u32>(i.op[0])[l] = texture_of(w, i, l, w.at<u64>(i.op[1])[l]).*size;
    }
}

// ---- surfaces: x counts bytes ----

enum Outside : u8 { TRAPS, CLAMPS, IGNORES };

/// The address of an element; 0 if it is outside, and to be ignored.
u64 element(Warp& w, const Inst& i, u32 lane, const Texture& surface, Geometry geometry,
            int operand, s64 bytes) {
    const s64 row = static_cast<s64>(surface.width) * surface.channels * surface.bits / 8;
    const s64 sizes[] = {row, surface.height, surface.depth};
    const s64 layer = has_layers(geometry) ? w.at<s32>(i.op[operand++])[lane] : 0;
    s64 place[3] = {0, 0, std::clamp<s64>(layer, 0, surface.depth - 1)};
    for (int d = 0; d < DIMENSIONS[geometry]; ++d) {
        const s64 last = sizes[d] - (d ? 1 : bytes), own = w.at<s32>(i.op[operand++])[lane];
        place[d] = std::clamp<s64>(own, 0, last);
        if (place[d] == own) continue;
        if (i.mode == TRAPS)
            w.fail(i, lane, "uses a surface outside of its size, at %s %lld",
                   d ? d == 1 ? "row" : "slice" : "byte", static_cast<long long>(own));
        if (i.mode == IGNORES) return 0;
    }
    const u64 address = surface.address + static_cast<u64>(place[2]) * surface.slice +
                        static_cast<u64>(place[1]) * surface.pitch + static_cast<u64>(place[0]);
    checked<u8>(w, i, lane, address, static_cast<u64>(bytes));
    return address;
}

template <Geometry geometry, class M, bool is_store>
void surface_access(Warp& w, const Inst& i) {
    using R = std::conditional_t<sizeof(M) == 1, u16, M>;
    const int handle = is_store ? 0 : i.vector, values = is_store ? 1 + OPERANDS[geometry] : 0;
    for (const u32 l : Lanes{w.mask}) {
        const Texture& surface = texture_of(w, i, l, w.at<u64>(i.op[handle])[l]);
        const s64 bytes = static_cast<s64>(sizeof(M)) * i.vector;
        M* memory = reinterpret_cast<M*>(element(w, i, l, surface, geometry, handle + 1, bytes));
        for (int k = 0; k < i.vector; ++k) {
            R& value = w.at<R>(i.op[values + k])[l];
            if (!is_store) value = memory ? memory[k] : 0;
            if (is_store && memory) memory[k] = static_cast<M>(value);
        }
    }
}

template <Geometry geometry>
void add_geometry(Table& t) {
    const std::string name = GEOMETRIES[geometry], coordinates(OPERANDS[geometry], '4');
    for_types<float, u32, s32>([&]<class R>() {
        const std::string type = name + ".v4." + name_of<R>();
        const std::string shape = "4444:8" + coordinates;
        t.add("tex." + type + ".f32", {fetch<geometry, R, float>, MEMORY, shape});
        t.add("tex.level." + type + ".f32", {fetch<geometry, R, float>, MEMORY, shape + "4"});
        if constexpr (geometry != CUBE)
            t.add("tex." + type + ".s32", {fetch<geometry, R, s32>, MEMORY, shape});
        if constexpr (geometry == PLANE)
            for (u8 k = 0; k < 4; ++k)
                t.add(std::string("tld4.") + "rgba"[k] + "." + type + ".f32",
                      {gather<R>, MEMORY, shape, PLAIN, k});
    });
    if constexpr (geometry != CUBE)
        for_types<u8, u16, u32, u64>([&]<class M>() {
            constexpr const char* OUTSIDE[] = {".trap", ".clamp", ".zero"};
            for (u8 mode = TRAPS; mode <= IGNORES; ++mode) {
                const std::string rest = ".b." + name + "." + name_of<M>() + OUTSIDE[mode],
                                  data{letter<M>(), '*'};
                t.add("suld" + rest, {surface_access<geometry, M, false>, MEMORY,
                                      data + ":8" + coordinates, ACCESS, mode});
                t.add("sust" + rest, {surface_access<geometry, M, true>, MEMORY,
                                      ":8" + coordinates + data, ACCESS, mode});
            }
        });
}

}  // namespace

void add_textures(Table& t) {
    add_geometry<LINE>(t);
    add_geometry<PLANE>(t);
    add_geometry<VOLUME>(t);
    add_geometry<LINES>(t);
    add_geometry<PLANES>(t);
    add_geometry<CUBE>(t);
    for (const char* opcode : {"txq.", "suq."}) {
        t.add(std::string(opcode) + "width.b32", {query<&Texture::width>, MEMORY, "4:8"});
        t.add(std::string(opcode) + "height.b32", {query<&Texture::height>, MEMORY, "4:8"});
        t.add(std::string(opcode) + "depth.b32", {query<&Texture::depth>, MEMORY, "4:8"});
    }
}

}  // namespace machine
