#include "kernels/device.h"

#include <catch2/catch.hpp>

#include "kernels/cuda_error.h"
#include "tests/kernels/backend.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

TEST_CASE("device: a device that is not there is an error with a text, never a crash", "[kernels][device]") {
  const int beyond = device_count();
  CHECK(beyond >= 0);
  CHECK_THROWS_AS(device_name(beyond), CudaError);
  CHECK_THROWS_AS(device_memory(beyond), CudaError);
}

TEST_CASE("device: name and memory are those of a real device", "[kernels][device][cuda]") {
  if (skip_without_device()) return;
  CHECK_FALSE(device_name(0).empty());
  const DeviceMemory before = device_memory(0);
  CHECK(before.total_bytes >= before.free_bytes);
  // What is free is the whole device's, and others give back as well as take: one of a few tries is undisturbed.
  bool is_less = false;
  for (int i = 0; i < 20 && !is_less; ++i) {
    const auto free_before = device_memory(0).free_bytes;
    const DeviceBuffer buffer(std::size_t{512} << 20);
    is_less = device_memory(0).free_bytes < free_before;
  }
  CHECK(is_less);
}
