#pragma once
// Catch2 beside LibTorch, whose logging defines a CHECK of its own that aborts. To be included instead of <catch2/catch.hpp>,
// before anything else of LibTorch.

// clang-format off
#include <ATen/ATen.h>
#undef CHECK
#include <catch2/catch.hpp>
// clang-format on
