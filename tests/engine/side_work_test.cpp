// Work beside a thread's own.
#include "engine/decode/side_work.h"

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>

#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope::engine {
namespace {

TEST_CASE("side work runs on other threads, and what it leaves to do on its owner's", "[engine][side_work]") {
  const auto owner = std::this_thread::get_id();
  std::atomic<int> n_elsewhere = 0;
  int n_here = 0;
  SideWork side(c10::kCPU, 3);
  for (int i = 0; i < 50; ++i)
    side.add([&] {
      n_elsewhere += std::this_thread::get_id() != owner;
      return [&] { n_here += std::this_thread::get_id() == owner; };
    });
  while (side.collect()) {
  }
  CHECK(n_elsewhere == 50);
  CHECK(n_here == 50);
  CHECK_FALSE(side.collect());
}

TEST_CASE("without threads side work is done at once", "[engine][side_work]") {
  SideWork side(c10::kCPU, 0);
  std::string order;
  side.add([&] {
    order += "a";
    return [&] { order += "b"; };
  });
  CHECK(order == "ab");
  CHECK_FALSE(side.collect());
}

TEST_CASE("what side work throws reaches its owner, and the rest goes on", "[engine][side_work]") {
  SideWork side(c10::kCPU, 2);
  int n = 0;
  side.add([]() -> SideWork::Then { throw std::runtime_error("no"); });
  side.add([&] { return [&] { ++n; }; });
  int n_thrown = 0;
  for (bool more = true; more;) {
    try {
      more = side.collect();
    } catch (const std::runtime_error&) {
      ++n_thrown;
    }
  }
  CHECK(n_thrown == 1);
  CHECK(n == 1);
}

TEST_CASE("side work that is given up waits for what runs, and drops what does not", "[engine][side_work]") {
  std::atomic<int> n_begun = 0, n_ended = 0;
  {
    SideWork side(c10::kCPU, 1);
    for (int i = 0; i < 20; ++i)
      side.add([&] {
        ++n_begun;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ++n_ended;
        return [] {};
      });
    while (n_begun == 0) std::this_thread::yield();
  }
  CHECK(n_begun == n_ended);
  CHECK(n_ended < 20);
}

}  // namespace
}  // namespace kvscope::engine
