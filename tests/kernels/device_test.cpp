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
  const DeviceBuffer buffer(std::size_t{512} << 20);
  CHECK(device_memory(0).free_bytes < before.free_bytes);
}
