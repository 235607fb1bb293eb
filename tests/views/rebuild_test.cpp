// When a picture is made again, and when the window is asked for a frame for it.
#include "views/widgets/rebuild.h"

#include <catch2/catch.hpp>
#include <thread>
#include <utility>

using namespace kvscope::views;
using Clock = std::chrono::steady_clock;

namespace {

/// Makes the picture of 1 in some 100 ms: the time that it stays then is more than a thread has to wait for its turn.
Rebuild<int> made_of_one() {
  Rebuild<int> rebuild;
  CHECK(rebuild.due(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  rebuild.done();
  redraw_at = kNoRedraw;
  return rebuild;
}

}  // namespace

TEST_CASE(
    "A picture that stays as it was for its cost asks for one frame, when it is made again, and for none before") {
  Rebuild<int> rebuild = made_of_one();
  const auto made = Clock::now();
  CHECK_FALSE(rebuild.due(1));
  CHECK(redraw_at == kNoRedraw);
  CHECK_FALSE(rebuild.due(2));
  const auto at = std::exchange(redraw_at, kNoRedraw);
  CHECK(at > made + std::chrono::milliseconds(60));
  REQUIRE(at < Clock::now() + std::chrono::seconds(10));
  std::this_thread::sleep_until(at);
  CHECK(rebuild.due(2));
  rebuild.done();
  CHECK_FALSE(rebuild.due(2));
  CHECK(redraw_at == kNoRedraw);
}

TEST_CASE(
    "Of several pictures that wait, the first one's time is the next frame's, and who wants a frame has it at once") {
  Rebuild<int> first = made_of_one(), second = made_of_one();
  CHECK_FALSE(second.due(2));
  const auto late = redraw_at;
  CHECK_FALSE(first.due(2));
  CHECK(redraw_at <= late);
  want_frame();
  CHECK(redraw_at <= Clock::now());
  CHECK(second.due(2, true));  // what is there is of no use
  redraw_at = kNoRedraw;
}
