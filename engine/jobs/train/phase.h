#pragma once
// What the phases of a training share.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/jobs/job.h"
#include "engine/jobs/train/corpus.h"
#include "engine/jobs/train/data_loader.h"
#include "engine/jobs/train/qwen3_module.h"
#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

/// One training: what is trained, from what, where to. Held by train_job.
struct Training {
  const Recipe& recipe;
  const Corpus& corpus;
  at::Device device;
  std::filesystem::path output;
  int loader_threads;
  JobContext& context;

  bool cancelled() const { return context.cancelled != nullptr && context.cancelled->load(); }
};

/// The base from scratch by next-token loss; writes the model folder and base_loss.csv. Returns the facts of the phase,
/// or {"status": "cancelled"}, in which case no weights are written.
nlohmann::json run_base_phase(const Training& training);

/// Scorers over the frozen base that stands in the output folder; writes kvpop_scorer.* and scorer_loss.csv.
nlohmann::json run_scorer_phase(const Training& training);

/// Token ids [B, T + 1] as int64 on the device.
at::Tensor ids_tensor(const Batch& batch, at::Device device);
/// Roles [B, T + 1] as int64 on the device.
at::Tensor roles_tensor(const Batch& batch, at::Device device);

/// Exact match of greedy, teacher-forced answers on held-out sequences, by task: {"reversal": {"right", "asked"}, ...}.
nlohmann::json dense_accuracy(const Qwen3Module& model, const SequenceGenerator& heldout, int n_sequences);

/// Seeds of the streams that must not meet.
constexpr std::uint64_t kHeldoutSalt = 0x68656c646f757400;  // "heldout"
constexpr std::uint64_t kScorerSalt = 0x73636f7265720000;   // "scorer"

/// The numbers of a training run as a CSV file, one line a logged step, on disk as soon as it is known.
class LossCurve {
 public:
  /// Replaces the file and writes the header line. Throws Error (resource) if that fails.
  LossCurve(const std::filesystem::path& path, std::vector<std::string> columns);
  /// One value a column.
  void add(const std::vector<double>& values);
  const std::vector<std::string>& columns() const { return columns_; }

 private:
  std::vector<std::string> columns_;
  std::ofstream file_;
};

/// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace kvscope::engine
