#pragma once
// What the phases of a training share.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/jobs/job.h"
#include "engine/jobs/train/corpus.h"
#include "engine/jobs/train/data_loader.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/jobs/train/optimizer.h"
#include "engine/jobs/train/recipe.h"
#include "engine/jobs/train/team.h"

namespace kvscope::engine {

constexpr char kCheckpointSuffix[] = ".checkpoint";

/// Seeds of the streams that must not meet.
constexpr std::uint64_t kHeldoutSalt = 0x68656c646f757400;  // "heldout"
constexpr std::uint64_t kScorerSalt = 0x73636f7265720000;   // "scorer"
constexpr std::uint64_t kGateSalt = 0x6761746500000000;     // "gate"
constexpr std::uint64_t kAdapterSalt = 0x6c6f726100000000;  // "lora"

/// One training: what is trained, from what, where to. Held by train_job.
struct Training {
  const Recipe& recipe;
  const Corpus& corpus;
  at::Device device;
  std::filesystem::path output;
  std::filesystem::path
      base;  // the model that scorers and gates are trained for: the output, if it is trained here; empty
             // where a gate and all weights are trained from nothing
  int loader_threads;
  std::string identity;       // what is trained from what: of checkpoints
  bool resumed;               // whether phases go on from their checkpoints
  double checkpoint_seconds;  // between two of them
  JobContext& context;
  Team* team = nullptr;  // of several devices
  int member = 0;        // which of them this is

  /// The first writes files and says what is going on.
  bool leads() const { return member == 0; }
  int n_members() const { return team == nullptr ? 1 : team->size(); }
  /// What the first member says, at all.
  double agreed(double value) const { return team == nullptr ? value : team->agree(member, value); }

  /// Of the text that is for training, or of that which is not.
  std::unique_ptr<SequenceSource> sequences(std::uint64_t seed) const { return make_source(corpus.training(), seed); }
  std::unique_ptr<SequenceSource> heldout() const { return make_source(corpus.heldout(), recipe.seed ^ kHeldoutSalt); }
  /// What LibTorch draws on this device in this step follows from the seed, the step and the member.
  void seed_draws(std::uint64_t salt, std::int64_t step) const;
  bool cancelled() const { return context.cancelled != nullptr && context.cancelled->load(); }

 private:
  std::unique_ptr<SequenceSource> make_source(std::span<const std::int32_t> text, std::uint64_t seed) const;
};

/// The base from scratch by next-token loss; writes the model folder. Returns the facts of the phase,
/// or {"status": "cancelled"}, in which case no weights are written.
nlohmann::json run_base_phase(const Training& training);

/// KVpop scorers over the frozen base; writes kvpop_scorer.* beside a base that was trained here, or a
/// folder with a gate for one that was given.
nlohmann::json run_scorer_phase(const Training& training);

/// Gates of recipe.gate's method over the frozen base; writes a folder a stage.
nlohmann::json run_gate_phase(const Training& training);

/// KVzap's gates over the frozen base; writes their folder.
nlohmann::json run_kvzap_phase(const Training& training);

/// Token ids [B, T + 1] as int64 on the device.
at::Tensor ids_tensor(const Batch& batch, at::Device device);
/// Roles [B, T + 1] as int64 on the device.
at::Tensor roles_tensor(const Batch& batch, at::Device device);

/// Exact match of greedy, teacher-forced answers on held-out sequences, by task: {"reversal": {"right", "asked"}, ...}.
nlohmann::json dense_accuracy(const DecoderModule& model, const SequenceSource& heldout, int n_sequences);

/// The part of a phase that differs: its steps.
struct PhaseSteps {
  std::string name;                       // "base": of progress, rows, curve and checkpoint
  std::vector<std::string> loss_columns;  // of the curve, between learning_rate and tokens_per_s
  std::function<void(const Batch&, std::int64_t step)> add_gradients;  // step: those done before
  /// What the last n_steps lost, a value for each of loss_columns; waits for the device.
  std::function<std::vector<double>(std::int64_t n_steps)> report;
  std::function<std::string(const std::vector<double>&)> describe;  // these values as text
  /// Scores of ids [1, T] by what is trained (probe_scores()); empty of a phase without a gate.
  std::function<at::Tensor(const at::Tensor& ids)> probe = {};
  std::optional<float> keeps_from = {};  // of these scores
};

/// Steps of `optimizer` until the phase is over, or from NAME.checkpoint on, which is written at logged steps: once in
/// checkpoint_seconds, and at the end. The numbers of every logged step go to the job's rows and to its curve of this name, which
/// begins with the rows of the checkpoint. The probe of the recipe goes to that curve too, before the first step and after the last as
/// well. Returns {"status": "done", "steps", "seconds", "last": the numbers of the last step}, or
/// {"status": "cancelled"}.
/// A member of a team sees its share of every batch; gradients and reported losses are means over the members.
/// Throws Error: resource if a file cannot be written, bad input if a loss is not a number (the checkpoint is of a step before).
nlohmann::json run_steps(const Training& training, const PhaseOptions& options, const SequenceSource& sequences,
                         AdamW& optimizer, const PhaseSteps& steps);

}  // namespace kvscope::engine
