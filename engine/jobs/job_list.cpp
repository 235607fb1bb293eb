#include "engine/jobs/job.h"

namespace kvscope::engine {

std::span<const JobInfo> job_list() {
  static constexpr JobInfo kJobs[] = {
      {"train", "Trains a model and its scorers by a recipe.", train_job},
      {"eval", "Asks a model questions under several policies and counts exact answers.", eval_job},
      {"bench", "Measures tokens per second of prefill and decode.", bench_job},
  };
  return kJobs;
}

}  // namespace kvscope::engine
