// Empty, for kernels that include it: the prelude already declares the device functions.

#pragma once
