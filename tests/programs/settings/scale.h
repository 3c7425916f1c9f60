#pragma once

constexpr float scale = 2;
