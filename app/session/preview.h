#pragma once
// What another policy would have kept of a run, by what was recorded of it: computed aside, the last question counts.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "app/session/worker.h"
#include "engine/core/record/gate_scores.h"
#include "engine/core/record/run_record.h"

namespace kvscope::app {

class Preview {
 public:
  /// `wake` is called from the worker's thread; `answered` by poll(), with a preview or a note to be seen.
  Preview(std::function<void()> wake, std::function<void()> answered)
      : answered_(std::move(answered)), worker_(std::move(wake)) {}

  /// `budgets`: as RunRequest has them. `gates`: what scores the run's tokens where it recorded none that the policy reads; may be null.
  void request(std::shared_ptr<const RunRecord> run, const PolicySpec& policy,
               std::shared_ptr<const ScoresOfGates> gates = nullptr, std::vector<std::int32_t> budgets = {});
  /// The gates are asked first: as if the answer were on its way.
  void wait();
  /// The run of the preview has grown: asks again, one question at a time, and shows what there is until the answer comes.
  void follow(std::shared_ptr<const RunRecord> run);
  void clear();
  void poll();

  const std::shared_ptr<const RunRecord>& run() const { return run_; }  // null if none is shown
  std::uint64_t revision() const { return revision_; }
  bool shown() const { return run_ != nullptr; }
  bool pending() const { return pending_; }
  /// It is asked for once the model is loaded: its gates may be others than before.
  bool due() const { return due_; }
  void set_due(bool due) { due_ = due; }
  const std::string& note() const { return note_; }  // why there is none

 private:
  std::function<void()> answered_;
  void ask(std::shared_ptr<const RunRecord> run);
  std::shared_ptr<const RunRecord> run_;
  PolicySpec policy_;
  std::shared_ptr<const ScoresOfGates> gates_;
  std::vector<std::int32_t> budgets_;
  std::uint64_t revision_ = 0, ticket_ = 0;
  bool pending_ = false, due_ = false;
  std::string note_;
  Worker worker_;
};

}  // namespace kvscope::app
