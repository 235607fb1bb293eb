#pragma once
// Waiting for a session without a window: what its threads and its engine bring is taken in until a condition holds.

#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/session/session.h"
#include "tests/support/slowdown.h"

namespace kvscope::test {

/// Whether a run may begin: the engine has the model, and its folder has been read. An engine may be ready before that, and a
/// test that waited for it alone goes on by who was quicker.
inline bool has_model(const app::Session& session) {
  return session.engine().state() == app::EngineState::ready && session.engine().model() &&
         !session.model().reads_folder();
}

/// Fails the test with the session's state after that many seconds, more under a sanitizer.
template <typename Condition>
void poll_until(app::Session& session, Condition condition, int seconds = 25) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds * kSlowdown);
  while (!condition()) {
    session.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (std::chrono::steady_clock::now() > deadline) FAIL("timed out; state: " << session.state().dump());
  }
}

}  // namespace kvscope::test
