// The header that precedes every whole program. The standard headers come first: the keywords of
// CUDA are macros, which would change some headers.

#pragma once

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "prelude.h"

#include "host_api.h"
#include "textures.h"
