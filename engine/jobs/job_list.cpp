#include "engine/jobs/job.h"

namespace kvscope::engine {

std::span<const JobInfo> job_list() {
  static constexpr JobInfo kJobs[] = {
      {"train", "Trains a model and its scorers by a recipe.", train_job},
      {"eval", "Asks a model questions under several policies and counts exact answers.", eval_job},
      {"bench", "Measures decoding, prompts, oracle, capture and scoring beside what the device allows.", bench_job},
  };
  return kJobs;
}

}  // namespace kvscope::engine
