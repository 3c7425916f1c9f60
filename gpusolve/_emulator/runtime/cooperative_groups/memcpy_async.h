// Asynchronous copies by a group. A copy is done at once; other threads may read it after wait().

#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class Group, class T>
void memcpy_async(const Group& group, T* target, const T* source, std::size_t bytes) {
    for (std::size_t i = group.thread_rank(); i < bytes / sizeof(T); i += group.size())
        target[i] = source[i];
}

template <class Group>
void wait(const Group& group, EMULATOR_SITE) {
    group.sync(file, line);
}
template <unsigned Stages, class Group>
void wait_prior(const Group& group, EMULATOR_SITE) {
    group.sync(file, line);
}

}  // namespace cooperative_groups
