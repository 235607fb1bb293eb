#pragma once
// Several runs in flight: who begins, who takes the next step, who has ended.

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/decode/generation_batch.h"
#include "engine/decode/run_sink.h"

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
class RunBatch {
 public:
  RunBatch(const LoadedModel& model, int most);
  ~RunBatch();

  /// Asks `next` for runs whenever there is a place, until it has none and every run has ended. It must not wait.
  void run(const std::function<std::optional<BatchedRun>()>& next);

 private:
  struct Waiting;
  struct Flight;
  using Source = std::function<std::optional<BatchedRun>()>;

  void admit(const Source& next);
  std::unique_ptr<Waiting> take(const Source& next) const;
  void begin(Waiting waiting);
  void step();
  void end_runs();
  Flight& flight_of(const Generation* run) const;

  const LoadedModel& model_;
  int most_;
  GenerationBatch batch_;
  std::unique_ptr<Waiting> waiting_;
  std::vector<std::unique_ptr<Flight>> in_flight_;
  std::int64_t free_ = 0, used_ = 0;  // bytes, as has_room() has them
};

}  // namespace kvscope::engine
