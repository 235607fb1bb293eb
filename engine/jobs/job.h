#pragma once
// Long jobs of the engine (train, eval, bench): one function each, listed in job_list.cpp, run by the server.

#include <atomic>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace kvscope::engine {

/// What a job may use while it runs. All callbacks may be called from the job's thread only.
struct JobContext {
  std::function<void(const std::string& phase, double value, double max, const std::string& text)> progress;
  std::function<void(const std::string& text, const nlohmann::json& data)> row;  // one line of the result, as it comes
  /// Rows of a table that the client writes: {"name", "columns", "first", "rows"} replace what it has from row `first` on.
  std::function<void(const nlohmann::json& curve)> curve;
  const std::atomic<bool>* cancelled = nullptr;  // asked at least once per step; then return {"status": "cancelled"}
};

/// args: as the command line parsed them. Returns the result object. Throws kvscope::Error for bad arguments or input.
using JobFunction = nlohmann::json (*)(const nlohmann::json& args, JobContext& context);

struct JobInfo {
  const char* name;
  const char* definition;
  JobFunction run;
};
std::span<const JobInfo> job_list();

nlohmann::json train_job(const nlohmann::json& args, JobContext& context);  // engine/jobs/train/train_job.cpp
nlohmann::json eval_job(const nlohmann::json& args, JobContext& context);   // engine/jobs/tasks/eval_job.cpp
nlohmann::json bench_job(const nlohmann::json& args, JobContext& context);  // engine/jobs/bench/bench.cpp

}  // namespace kvscope::engine
