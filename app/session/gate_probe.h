#pragma once
// Scores of a run by the engine's gates, asked when the engine has nothing else to do: one dense run is previewed under
// every policy.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/session/engine_link.h"
#include "engine/core/record/gate_scores.h"

namespace kvscope::app {

class GateProbe {
 public:
  /// `answered`: what was waited for is known, or why it will not be.
  GateProbe(EngineLink& engine, std::function<void()> answered) : engine_(engine), answered_(std::move(answered)) {}

  /// Scores of the run's tokens by the gates that the engine has, or null: then they are asked for, by poll(), as soon as
  /// the engine is free. why_not() says why they cannot be had.
  std::shared_ptr<const ScoresOfGates> look(const std::shared_ptr<const RunRecord>& run);
  /// The answer is not waited for any more. What is under way goes on, and is kept.
  void forget() { wanted_ = nullptr; }
  bool pending() const { return wanted_ != nullptr; }
  const std::string& why_not() const { return why_not_; }
  void poll();

 private:
  struct Key {
    std::string weights_hash;
    std::uint64_t ids = 0;           // hash of the tokens
    std::vector<std::string> gates;  // as the engine was given them
    bool operator==(const Key&) const = default;
  };
  struct Known {
    Key key;
    std::shared_ptr<const ScoresOfGates> scores;  // null: refused, and why
    std::string why_not;
  };
  Key key_of(const RunRecord& run) const;
  const Known* find(const Key& key) const;
  void keep(Known known);
  void ask(const RunRecord& run);

  EngineLink& engine_;
  std::function<void()> answered_;
  std::shared_ptr<const RunRecord> wanted_;
  std::string why_not_;
  std::deque<Known> known_;  // the newest first
};

}  // namespace kvscope::app
