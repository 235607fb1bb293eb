#include "engine/decode/run_batch.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "engine/core/support/seconds_since.h"
#include "engine/decode/run_in_flight.h"
#include "engine/decode/run_memory.h"
#include "engine/model/place.h"
#include "engine/model/weights.h"
#include "kernels/step_graph.h"

namespace kvscope::engine {

struct RunBatch::Waiting {
  BatchedRun job;
  int n_positions;
  std::int64_t bytes;
};

struct RunBatch::Flight {
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
  int n_positions = 0;
  std::int64_t bytes = 0;
  std::optional<RunInFlight> run;
  bool is_over = false;
  RunEnded end;
  std::exception_ptr error;
};

RunBatch::RunBatch(const LoadedModel& model, int most) : RunBatch(model, most, side_threads(model.weights().device)) {}

RunBatch::RunBatch(const LoadedModel& model, int most, int n_side_threads)
    : model_(model),
      most_(most),
      batch_(model, most),
      side_(model.weights().device, model.is_for_one_thread() ? 0 : n_side_threads) {
  const kernels::Place place = ops::place_of(model.weights().device);
  if (place.is_cuda()) kernels::wait_for(place.stream);  // the model is there for all streams
}

RunBatch::~RunBatch() = default;

void RunBatch::run(const Source& next) {
  while (true) {
    side_.collect_finished();
    admit(next);
    if (!in_flight_.empty()) {
      step();
    } else if (!side_.collect()) {
      return;
    }
  }
}

void RunBatch::admit(const Source& next) {
  while (has_place()) {
    if (!waiting_) waiting_ = take(next);
    if (!waiting_) return;
    if (n_begun_ == 0) free_ = free_bytes(model_);
    if (!has_room(n_begun_, n_begun_ + 1, waiting_->bytes, used_, free_)) return;
    begin(std::exchange(waiting_, nullptr));
  }
}

/// Runs that only their oracle waits for take no place of the batch, but memory: a few may be ahead.
bool RunBatch::has_place() const { return batch_.size() + n_prompts_ < most_ && n_begun_ < most_ + side_.n_threads(); }

/// The next run that can be read as tokens.
std::unique_ptr<RunBatch::Waiting> RunBatch::take(const Source& next) const {
  while (std::optional<BatchedRun> job = next()) {
    try {
      RunRequest& request = job->request;
      request.prompt_ids = prompt_ids(model_, request);
      const int n_positions = positions_of_run(model_, request.prompt_ids.size(), request.max_tokens);
      const std::int64_t bytes = run_bytes(model_, request, n_positions);
      return std::make_unique<Waiting>(Waiting{std::move(*job), n_positions, bytes});
    } catch (...) {
      job->failed(std::current_exception());
    }
  }
  return nullptr;
}

void RunBatch::begin(std::unique_ptr<Waiting> waiting) {
  BatchedRun& job = waiting->job;
  const auto flight = std::make_shared<Flight>();
  flight->ended = std::move(job.ended);
  flight->failed = std::move(job.failed);
  flight->n_positions = waiting->n_positions;
  flight->bytes = waiting->bytes;
  ++n_begun_, ++n_prompts_;
  used_ += flight->bytes;
  beside(flight->n_positions, [this, flight, request = std::move(job.request), sink = std::move(job.sink)]() mutable {
    flight->attempt([&] {
      flight->run.emplace(model_, request, std::move(sink));
      flight->run->prefill();
    });
    if (flight->error) flight->run.reset();
    return [this, flight] { join(flight); };
  });
}

void RunBatch::join(const std::shared_ptr<Flight>& flight) {
  --n_prompts_;
  if (!flight->error) flight->attempt([&] { batch_.join(flight->run->generation()); });
  flight->error ? end(flight) : in_flight_.push_back(flight);
}

void RunBatch::step() {
  for (const auto& flight : in_flight_) flight->attempt([&] { flight->is_over = !flight->run->begin_step(); });
  end_runs();
  std::vector<GenerationBatch::Step> steps;
  const auto start = std::chrono::steady_clock::now();
  try {
    steps = batch_.step();
  } catch (...) {
    for (const auto& flight : in_flight_) flight->error = std::current_exception();
  }
  step_seconds_ += seconds_since(start);
  for (GenerationBatch::Step& step : steps) {
    Flight& flight = flight_of(step.run);
    flight.error = step.error;
    if (!step.error) flight.attempt([&] { flight.run->end_step(std::move(step.facts)); });
  }
  end_runs();
}

void RunBatch::end_runs() {
  for (auto& here : in_flight_) {
    if (!here->is_over && !here->error) continue;
    std::shared_ptr<Flight> flight = std::move(here);
    batch_.leave(flight->run->generation());
    end(std::move(flight));
  }
  std::erase(in_flight_, nullptr);
}

void RunBatch::end(std::shared_ptr<Flight> flight) {
  const int n_positions = flight->n_positions;
  beside(n_positions, [this, flight = std::move(flight)] {
    if (!flight->error) flight->attempt([&] { flight->end = flight->run->finish(); });
    flight->run.reset();  // who hears of the end finds the run's memory free
    return [this, flight] {
      --n_begun_;
      used_ -= flight->bytes;
      flight->error ? flight->failed(flight->error) : flight->ended(std::move(flight->end));
    };
  });
}

void RunBatch::beside(int n_positions, std::function<std::function<void()>()> work) {
  n_positions <= kMostBeside ? side_.add(std::move(work)) : work()();
}

RunBatch::Flight& RunBatch::flight_of(const Generation* run) const {
  const auto found = std::ranges::find_if(in_flight_, [&](const auto& f) { return &f->run->generation() == run; });
  if (found == in_flight_.end()) throw std::logic_error("RunBatch: a step of a run that is not in flight");
  return **found;
}

}  // namespace kvscope::engine
