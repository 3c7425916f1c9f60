// Programs without a fault, in one translation unit; the first argument names one.

#include <cstring>

#include "devices.cuh"
#include "older_api.cuh"
#include "runtime_api.cuh"
#include "textures.cuh"

int main(int, char** values) {
    const auto is = [=](const char* name) { return std::strcmp(values[1], name) == 0; };
    if (is("devices")) return devices::run();
    if (is("older_api")) return older_api::run();
    return is("textures") ? textures::run() : runtime_api::run();
}
