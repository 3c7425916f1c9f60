// Functions that device code calls, and that the machine has: printf, malloc, free and assert.

#pragma once

#include "machine.h"

namespace machine {

/// The function of a name, if the arguments of the call are right; null if there is none.
Run machine_function(const std::string& name, const Call& call);

}  // namespace machine
