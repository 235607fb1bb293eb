#pragma once
// Several runs in flight: who begins, who takes the next step, who has ended.

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/decode/generation_batch.h"
#include "engine/decode/run_sink.h"
#include "engine/decode/side_work.h"

namespace kvscope::engine {

/// A run that waits for its turn. It ends with one call of `ended` or `failed`.
struct BatchedRun {
  RunRequest request;
  RunSink sink;
  std::function<void(RunEnded)> ended;
  std::function<void(std::exception_ptr)>
      failed;  // what went wrong with this run; it may be a cancel before its prompt
};

/// A continuous batch. A run joins by its prompt between two steps of the others, as soon as one of `most` places is
/// free and memory suffices (has_room()), and leaves after its last token. Each reports what it would report alone, in
/// the same order; what goes wrong with one ends that one. What a callback throws ends all of them.
///
/// With side threads, prompts of up to kMostBeside tokens pass beside the steps of others, and so does what is measured at
/// the end. `ended` and `failed` are always called from the thread of run(); a run's sink from any, one call after the
/// other.
class RunBatch {
 public:
  static constexpr int kMostBeside = 8192;  // a longer text fills the device, and needs much memory

  RunBatch(const LoadedModel& model, int most);
  RunBatch(const LoadedModel& model, int most, int n_side_threads);
  ~RunBatch();

  /// Asks `next` for runs whenever there is a place, until it has none and every run has ended. It must not wait.
  void run(const std::function<std::optional<BatchedRun>()>& next);
  /// What all steps took: a step of several runs counts once.
  double step_seconds() const { return step_seconds_; }

 private:
  struct Waiting;
  struct Flight;
  using Source = std::function<std::optional<BatchedRun>()>;

  void admit(const Source& next);
  bool has_place() const;
  std::unique_ptr<Waiting> take(const Source& next) const;
  void begin(std::unique_ptr<Waiting> waiting);
  void join(const std::shared_ptr<Flight>& flight);
  void step();
  void end_runs();
  void end(std::shared_ptr<Flight> flight);
  void beside(int n_positions, std::function<std::function<void()>()> work);
  Flight& flight_of(const Generation* run) const;

  const LoadedModel& model_;
  int most_;
  GenerationBatch batch_;
  std::unique_ptr<Waiting> waiting_;
  std::vector<std::shared_ptr<Flight>> in_flight_;
  int n_begun_ = 0, n_prompts_ = 0;   // runs that have begun and not ended; those of them whose prompt passes
  std::int64_t free_ = 0, used_ = 0;  // bytes, as has_room() has them
  double step_seconds_ = 0;
  SideWork side_;  // last: its threads end before what they use
};

}  // namespace kvscope::engine
