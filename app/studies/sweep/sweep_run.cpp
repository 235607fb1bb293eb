#include "app/studies/sweep/sweep_run.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <thread>
#include <unordered_set>

#include "app/studies/eval/evaluate.h"
#include "app/studies/sweep/sweep_table.h"
#include "app/support/interrupt.h"
#include "app/support/split.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_fields.h"
#include "engine/core/support/seconds_since.h"
#include "engine/core/support/shuffle.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// All keys that the engine would ask of a group, also the dense policy's where another group has asked it.
std::vector<std::string> engine_keys(const SweepPlan& plan, SweepGroup group) {
  group.asks_dense = true;
  return sweep_keys(plan, group);
}

/// The group's request for these keys alone.
EvalRequest request_for(const SweepPlan& plan, const SweepGroup& group, const std::unordered_set<std::string>& wanted) {
  EvalRequest request = group.request;
  for (std::string& key : engine_keys(plan, group)) {
    if (!wanted.contains(key)) request.done.push_back(std::move(key));
  }
  return request;
}

/// The GPUs that engines may be spread over: those of CUDA_VISIBLE_DEVICES, else all whose device files are there.
std::vector<std::string> visible_gpus() {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) return split(visible, ',');
  std::vector<std::string> gpus;
  for (int i = 0; fs::exists("/dev/nvidia" + std::to_string(i)); ++i) gpus.push_back(std::to_string(i));
  return gpus;
}

/// Of one engine of several: a GPU of its own, or its part of the cores.
std::vector<std::string> environment_of(int worker, int jobs) {
  if (jobs == 1) return {};
  std::vector<std::string> environment;
  const std::vector<std::string> gpus = visible_gpus();
  if (!gpus.empty()) {
    environment.push_back("CUDA_VISIBLE_DEVICES=" + gpus[static_cast<std::size_t>(worker) % gpus.size()]);
  }
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    environment.push_back("OMP_NUM_THREADS=" + std::to_string(std::max(1, cores / jobs)));
  }
  return environment;
}

/// Of one engine of several: the sweep shows the progress of all.
EngineJobOptions hidden(EngineJobOptions options) {
  options.shows_progress = false;
  return options;
}

using Shares = std::vector<std::unordered_set<std::string>>;  // keys, by worker

/// What is left of a group, dealt out in an order that no policy's cost follows.
Shares share_out(const SweepRun& run, const SweepGroup& group, const SweepJournal& journal) {
  std::vector<std::string> left;
  for (std::string& key : sweep_keys(run.plan, group, run.shard)) {
    if (journal.find(group, key) == nullptr) left.push_back(std::move(key));
  }
  Random random(1);
  shuffle(random, left);
  Shares shares(static_cast<std::size_t>(run.jobs));
  for (std::size_t i = 0; i < left.size(); ++i) shares[i % shares.size()].insert(std::move(left[i]));
  return shares;
}

bool is_empty(const Shares& shares) { return shares[0].empty(); }

/// Loads every group that is still to be asked and asks nothing: a budget below its window, a gate that is not there and a
/// text that is too short end a sweep before its first answer. One group needs no such round: it is refused before its
/// first line.
void check_with_engine(const SweepRun& run, const SweepJournal& journal, const std::vector<Shares>& shares) {
  const auto n = std::ranges::count_if(shares, [](const Shares& of_group) { return !is_empty(of_group); });
  if (n < 2) return;
  EngineJob job(hidden(run.engine));
  for (std::size_t g = 0; g < shares.size(); ++g) {
    const SweepGroup& group = run.plan.groups[g];
    if (is_empty(shares[g]) || journal.facts().contains(group.name()) || interrupted()) continue;
    evaluate(job, request_for(run.plan, group, {}), {});
  }
}

class Workers {
 public:
  Workers(const SweepRun& run, SweepJournal& journal, const std::vector<Shares>& shares)
      : run_(run),
        journal_(journal),
        shares_(shares),
        progress_(run.engine.is_quiet),
        n_all_(run.n_all()),
        n_done_(run.n_done(journal)) {}

  void run() {
    std::vector<std::thread> threads;
    try {
      for (int worker = 0; worker < run_.jobs; ++worker) {
        const auto has_work = [&](const Shares& shares) { return !shares[static_cast<std::size_t>(worker)].empty(); };
        if (std::ranges::any_of(shares_, has_work)) threads.emplace_back([this, worker] { work(worker); });
      }
    } catch (...) {  // no memory for one more
      fail();
    }
    for (std::thread& thread : threads) thread.join();
    progress_.clear();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  /// In a thread of its own, which also starts its engine: the engine ends with it.
  void work(int worker) {
    try {
      EngineJobOptions options = hidden(run_.engine);
      options.environment = environment_of(worker, run_.jobs);
      options.stop = [this] { return failed_.load() || (run_.engine.stop && run_.engine.stop()); };
      EngineJob job(std::move(options));
      for (std::size_t g = 0; g < shares_.size() && !interrupted() && !failed_; ++g) {
        const auto& wanted = shares_[g][static_cast<std::size_t>(worker)];
        if (!wanted.empty() && !answer(job, run_.plan.groups[g], wanted)) return;
      }
    } catch (...) {
      fail();
    }
  }

  /// The first one's reason counts; those that were stopped by it say nothing new.
  void fail() {
    const std::scoped_lock lock(mutex_);
    if (!failed_.exchange(true)) failure_ = std::current_exception();
  }

  bool answer(EngineJob& job, const SweepGroup& group, const std::unordered_set<std::string>& wanted) {
    return evaluate(job, request_for(run_.plan, group, wanted),
                    {[&](const EvalFacts& facts) {
                       open_journal();
                       journal_.begin(group, facts);
                     },
                     [&](const EvalAnswer& answer) {
                       journal_.append(group, answer);
                       show(answer);
                     }});
  }

  /// Not before an engine has taken the first request: what it refuses leaves no file.
  void open_journal() {
    const std::scoped_lock lock(mutex_);
    if (!is_open_) journal_.open();
    is_open_ = true;
  }

  void show(const EvalAnswer& answer) {
    const std::scoped_lock lock(mutex_);
    progress_.update("sweep", static_cast<double>(++n_done_), static_cast<double>(n_all_),
                     answer.item + ", " + answer.policy);
  }

  const SweepRun& run_;
  SweepJournal& journal_;
  const std::vector<Shares>& shares_;
  Progress progress_;
  std::int64_t n_all_, n_done_;
  std::mutex mutex_;
  bool is_open_ = false;
  std::atomic<bool> failed_ = false;
  std::exception_ptr failure_;
};

}  // namespace

std::int64_t SweepRun::n_all() const {
  std::int64_t n = 0;
  for (const SweepGroup& group : plan.groups) {
    n += static_cast<std::int64_t>(sweep_keys(plan, group, shard).size());
  }
  return n;
}

std::int64_t SweepRun::n_done(const SweepJournal& journal) const {
  std::int64_t n = 0;
  for (const SweepGroup& group : plan.groups) {
    for (const std::string& key : sweep_keys(plan, group, shard)) n += journal.find(group, key) != nullptr;
  }
  return n;
}

bool answer_all(const SweepRun& run, SweepJournal& journal) {
  std::vector<Shares> shares;
  for (const SweepGroup& group : run.plan.groups) shares.push_back(share_out(run, group, journal));
  if (std::ranges::all_of(shares, is_empty)) return true;
  catch_interrupts();
  check_with_engine(run, journal, shares);
  if (interrupted()) return false;
  Workers(run, journal, shares).run();
  return run.n_done(journal) == run.n_all();
}

namespace {

/// The first answer of a group under one policy; nothing after Ctrl+C.
std::optional<SweepSample> measure_one(EngineJob& job, const SweepRun& run, const SweepGroup& group,
                                       const std::string& policy, double& load_s) {
  const EvalAnswer first{.item = run.plan.items(group)[0], .policy = policy, .index = 0};
  std::optional<SweepSample> sample;
  Clock::time_point start = Clock::now();
  const bool is_whole =
      evaluate(job, request_for(run.plan, group, {first.key()}),
               {[&](const EvalFacts&) {
                  load_s = seconds_since(start);
                  start = Clock::now();
                },
                [&](const EvalAnswer& answer) {
                  sample = {.group = group.base(), .policy = answer.policy, .seconds = seconds_since(start)};
                }});
  return is_whole ? sample : std::nullopt;
}

std::vector<SweepSample> measure_samples(const SweepRun& run, double& load_s) {
  EngineJob job(hidden(run.engine));
  std::vector<SweepSample> samples;
  for (const SweepGroup& dense : run.plan.groups) {
    if (!dense.asks_dense) continue;  // groups of other gates cost what this one does
    std::int64_t n_dense = 0, n_other = 0;
    const SweepGroup* with_points = nullptr;  // the dense policy may have a group of its own: it loads no gate
    for (const SweepGroup& group : run.plan.groups) {
      if (group.base() != dense.base()) continue;
      const auto n = static_cast<std::int64_t>(run.plan.items(group).size()) * run.plan.n_of(group);
      n_dense += group.asks_dense ? n : 0;
      n_other += n * static_cast<std::int64_t>(group.points.size());
      if (with_points == nullptr && !group.points.empty()) with_points = &group;
    }
    std::optional<SweepSample> sample = measure_one(job, run, dense, kDensePolicy, load_s);
    if (!sample) return {};
    sample->n = n_dense;
    samples.push_back(*sample);
    if (with_points == nullptr) continue;
    const std::string& policy = run.plan.points[with_points->points[0]].policy;
    sample = measure_one(job, run, *with_points, policy, load_s);
    if (!sample) return {};
    sample->n = n_other;
    samples.push_back(*sample);
  }
  return samples;
}

/// What a line of answers takes: all numbers with 17 digits.
double bytes_of_answers(const SweepPlan& plan, std::int64_t n) {
  EvalAnswer answer{.item = plan.items(plan.groups[0])[0],
                    .policy = plan.points.empty() ? "" : plan.points.back().policy};
  for (double* number : {&answer.nll, &answer.density, &answer.cache_tokens, &answer.cache_size, &answer.cache_size_end,
                         &answer.seconds})
    *number = 1.0 / 3;
  return static_cast<double>(n) * (static_cast<double>(json_of_fields(answer).dump().size()) + 40);
}

}  // namespace

std::optional<SweepEstimate> estimate_sweep(const SweepRun& run, const SweepJournal& journal) {
  SweepEstimate estimate;
  estimate.samples = measure_samples(run, estimate.load_s);
  if (estimate.samples.empty()) return std::nullopt;
  const SweepPlan& plan = run.plan;
  const std::int64_t n_all = run.n_all(), n_left = n_all - run.n_done(journal);
  for (const SweepSample& sample : estimate.samples) estimate.seconds += sample.seconds * static_cast<double>(sample.n);
  estimate.seconds *= static_cast<double>(n_left) / static_cast<double>(std::max<std::int64_t>(1, plan.n_answers()));
  estimate.seconds += estimate.load_s * static_cast<double>(plan.groups.size());
  estimate.study_bytes = static_cast<double>(study_bytes(sweep_table(plan, journal, 0), "study").size());
  estimate.answers_bytes = bytes_of_answers(plan, n_all);
  return estimate;
}

}  // namespace kvscope::app
