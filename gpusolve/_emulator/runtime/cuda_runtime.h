// For kernels that include it: what it declares for device code stands in front of them anyhow.

#pragma once
