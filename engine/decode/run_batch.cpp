#include "engine/decode/run_batch.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "engine/decode/run_in_flight.h"
#include "engine/decode/run_memory.h"

namespace kvscope::engine {

struct RunBatch::Waiting {
  BatchedRun job;
  std::int64_t bytes;
};

struct RunBatch::Flight {
  Flight(const LoadedModel& model, Waiting waiting)
      : ended(std::move(waiting.job.ended)),
        failed(std::move(waiting.job.failed)),
        bytes(waiting.bytes),
        run(model, waiting.job.request, std::move(waiting.job.sink)) {}

  /// What `work` throws is the error of this run, and of no other.
  template <typename Work>
  void attempt(const Work& work) {
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  }

  std::function<void(RunEnded)> ended;
  std::function<void(std::exception_ptr)> failed;
  std::int64_t bytes;
  RunInFlight run;
  bool is_over = false;
  std::exception_ptr error = {};
};

RunBatch::RunBatch(const LoadedModel& model, int most) : model_(model), most_(most), batch_(model, most) {}

RunBatch::~RunBatch() = default;

void RunBatch::run(const Source& next) {
  while (true) {
    admit(next);
    if (in_flight_.empty()) return;
    step();
  }
}

void RunBatch::admit(const Source& next) {
  while (batch_.size() < most_) {
    if (!waiting_) waiting_ = take(next);
    if (!waiting_) return;
    if (in_flight_.empty()) free_ = free_bytes(model_);
    if (!has_room(batch_.size(), most_, waiting_->bytes, used_, free_)) return;
    begin(std::move(*std::exchange(waiting_, nullptr)));
  }
}

/// The next run that can be read as tokens.
std::unique_ptr<RunBatch::Waiting> RunBatch::take(const Source& next) const {
  while (std::optional<BatchedRun> job = next()) {
    try {
      RunRequest& request = job->request;
      request.prompt_ids = prompt_ids(model_, request);
      const int n_positions = positions_of_run(model_, request.prompt_ids.size(), request.max_tokens);
      const std::int64_t bytes = run_bytes(model_, request, n_positions);
      return std::make_unique<Waiting>(Waiting{std::move(*job), bytes});
    } catch (...) {
      job->failed(std::current_exception());
    }
  }
  return nullptr;
}

void RunBatch::begin(Waiting waiting) {
  const auto failed = waiting.job.failed;
  std::unique_ptr<Flight> flight;
  try {
    flight = std::make_unique<Flight>(model_, std::move(waiting));
    flight->run.prefill();
    batch_.join(flight->run.generation());
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    flight.reset();
    return failed(error);
  }
  used_ += flight->bytes;
  in_flight_.push_back(std::move(flight));
}

void RunBatch::step() {
  for (const auto& flight : in_flight_) flight->attempt([&] { flight->is_over = !flight->run.begin_step(); });
  end_runs();
  std::vector<GenerationBatch::Step> steps;
  try {
    steps = batch_.step();
  } catch (...) {
    for (const auto& flight : in_flight_) flight->error = std::current_exception();
  }
  for (const GenerationBatch::Step& step : steps) {
    Flight& flight = flight_of(step.run);
    flight.error = step.error;
    if (!step.error) flight.attempt([&] { flight.run.end_step(step.facts); });
  }
  end_runs();
}

void RunBatch::end_runs() {
  for (auto& here : in_flight_) {
    if (!here->is_over && !here->error) continue;
    std::unique_ptr<Flight> flight = std::move(here);
    batch_.leave(flight->run.generation());
    used_ -= flight->bytes;
    RunEnded end;
    if (!flight->error) flight->attempt([&] { end = flight->run.finish(); });
    const auto ended = std::move(flight->ended);
    const auto failed = std::move(flight->failed);
    const std::exception_ptr error = flight->error;
    flight.reset();  // who hears of the end finds the run's memory free
    error ? failed(error) : ended(std::move(end));
  }
  std::erase(in_flight_, nullptr);
}

RunBatch::Flight& RunBatch::flight_of(const Generation* run) const {
  const auto found = std::ranges::find_if(in_flight_, [&](const auto& f) { return &f->run.generation() == run; });
  if (found == in_flight_.end()) throw std::logic_error("RunBatch: a step of a run that is not in flight");
  return **found;
}

}  // namespace kvscope::engine
