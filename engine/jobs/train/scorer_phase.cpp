#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <optional>

#include "engine/jobs/train/boundary_loss.h"
#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/future_target.h"
#include "engine/jobs/train/heldout_probe.h"
#include "engine/jobs/train/phase.h"
#include "engine/jobs/train/scorer_student.h"
#include "engine/jobs/train/token_accuracy.h"

namespace kvscope::engine {
namespace {

/// What the teacher says of one layer.
struct LayerTargets {
  at::Tensor k, v;    // [B, T, HK, D]
  at::Tensor target;  // [HK, B, T]
};

/// One dense pass of the frozen base, layer by layer: `use` is called after each global layer, and its tensors go then.
template <typename Use>
void teach(const DecoderModule& base, const at::Tensor& ids, const ScorerOptions& options, const Use& use) {
  at::Tensor x;
  {
    const c10::NoGradGuard no_grad;
    x = base.embed(ids);
  }
  for (int layer = 0; layer < base.config().n_layers; ++layer) {
    LayerTargets targets;
    {
      const c10::NoGradGuard no_grad;
      const auto heads = base.project(layer, x);
      if (base.config().is_local(layer)) {
        x = base.finish(layer, x, base.attend(layer, heads));
        continue;
      }
      const at::Tensor weight = value_weight(heads.v, options.weight, base.output_projection(layer));
      const auto teacher = teacher_attention(heads.q, heads.k, heads.v, options.window, options.mass,
                                             base.config().attention_scale(layer), weight);
      targets = {heads.k, heads.v, teacher.target};
      x = base.finish(layer, x, teacher.output.to(heads.q.scalar_type()));
    }
    use(layer, targets);
  }
}

/// A layer's contests and their gradients are some 400 launches of small kernels: on a GPU as many layers go together as make a memory's
/// weights, the largest numbers of them, 256 MB.
int layers_at_once(const ModelConfig& model, const at::Tensor& ids, const ScorerOptions& options) {
  if (!ids.is_cuda()) return 1;
  const std::int64_t of_layer = model.n_kv_heads * ids.size(0) * 2 * options.queries * ids.size(1);
  return static_cast<int>(std::clamp<std::int64_t>((std::int64_t{1} << 26) / of_layer, 1, model.n_layers));
}

/// Adds the gradients of the boundary loss of all layers for one batch; returns the mean loss on the device.
at::Tensor accumulate(const DecoderModule& base, const ScorerModule& scorer, const at::Tensor& ids,
                      const ScorerOptions& options, Random& random) {
  at::Tensor total = at::zeros({}, at::TensorOptions(ids.device()).dtype(at::kFloat));
  const ModelConfig& model = base.config();
  const int n_layers = n_global_layers(model), at_once = layers_at_once(model, ids, options);
  std::vector<at::Tensor> k, v, target;
  teach(base, ids, options, [&](int layer, const LayerTargets& targets) {
    k.push_back(targets.k), v.push_back(targets.v), target.push_back(targets.target);
    const int n = static_cast<int>(k.size());
    if (n < at_once && layer + 1 < model.n_layers && !model.is_local(layer + 1)) return;
    const int top_k = options.top_k[random.below(options.top_k.size())];
    total += teach_boundary(scorer, {layer + 1 - n, n}, at::cat(k, 2), at::cat(v, 2), at::cat(target), top_k, options,
                            random) /
             n_layers;
    k.clear(), v.clear(), target.clear();
  });
  return total;
}

/// Mean oracle recall on held-out sequences, by long-range budget: {"60": {"mean", "by_layer"}, ...}.
nlohmann::json heldout_recall(const DecoderModule& base, const ScorerModule& scorer, const SequenceSource& heldout,
                              const ScorerOptions& options) {
  const c10::NoGradGuard no_grad;
  constexpr int kAtOnce = 2;
  const ModelConfig& model = base.config();
  const int n_positions = heldout.length();
  std::map<int, at::Tensor> sums;  // [L, HK]
  int n_batches = 0;
  for (int first = 0; first + kAtOnce <= std::max(kAtOnce, options.heldout_sequences); first += kAtOnce, ++n_batches) {
    const Batch batch = make_batch(heldout, static_cast<std::uint64_t>(first), kAtOnce);
    const at::Tensor ids = ids_tensor(batch, base.embedding().device()).narrow(1, 0, n_positions);
    teach(base, ids, options, [&](int layer, const LayerTargets& targets) {
      const at::Tensor scores = all_priorities(scorer, layer, targets.k, targets.v);
      for (const int top_k : options.top_k) {
        auto& sum = sums[top_k];
        if (!sum.defined()) sum = at::zeros({model.n_layers, scores.size(0)});
        sum.select(0, layer).add_(oracle_recall(scores, targets.target, options.n_sink, options.window, top_k));
      }
    });
  }
  nlohmann::json result;
  for (const auto& [top_k, sum] : sums) {
    const at::Tensor recall = sum / n_batches;
    nlohmann::json by_layer;
    for (int layer = 0; layer < model.n_layers; ++layer)
      by_layer.push_back(model.is_local(layer) ? nlohmann::json()
                                               : nlohmann::json(recall.select(0, layer).mean().item<double>()));
    const double mean = recall.mean().item<double>() * model.n_layers / n_global_layers(model);  // local layers: zeros
    result[std::to_string(top_k)] = {{"mean", mean}, {"by_layer", by_layer}};
  }
  return result;
}

/// "kvpop", and what is not the base of the paper's comparisons: "kvpop-mlp-rms-decay".
std::string name_of(const ScorerOptions& options) {
  std::string name = "kvpop";
  if (options.kind == GateKind::kvpop_mlp) name += "-mlp";
  if (options.kind == GateKind::kvpop_linear) name += "-linear";
  if (options.kind == GateKind::kvpop_mlstm && options.delay == 0) name += "-immediate";
  if (options.mlstm.feature_map == FeatureMap::softmax) name += "-softmax";
  if (options.mlstm.head_norm) name += "-norm";
  if (options.mlstm.cached_values) name += "-cached";
  if (!options.mlstm.skip) name += "-no-skip";
  if (options.mass != FutureMass::mean)
    name += options.mass == FutureMass::sum ? "-sum" : options.mass == FutureMass::rms ? "-rms" : "-max";
  if (options.weight != TargetWeight::mass) name += options.weight == TargetWeight::value ? "-value" : "-output";
  if (options.decay) name += "-decay";
  if (options.trains_base()) name += options.all_weights ? "-joint-all" : "-joint";
  if (options.output_weight > 0) name += "-through";
  if (options.pooled) name += "-pooled";
  if (options.window != ScorerOptions().window) name += "-w" + std::to_string(options.window);
  return name;
}

/// Products in TF32 while one of them lives, of whatever member: the teacher's probabilities need float32's range, not its last bits.
class FastProducts {
 public:
  FastProducts() {
    if (n_alive_++ == 0) at::globalContext().setFloat32MatmulPrecision("high");
  }
  ~FastProducts() {
    if (--n_alive_ == 0) at::globalContext().setFloat32MatmulPrecision("highest");
  }

 private:
  static inline std::atomic<int> n_alive_ = 0;
};

/// What is trained: scorers, and with an adapter or all weights the base that they are for; the student is the base where
/// that is frozen.
struct TrainedScorer {
  DecoderModule base;
  ScorerModule scorer;
  std::optional<LoraAdapter> adapter;
  DecoderModule student;

  static at::ScalarType type_of(const Training& training) {
    return training.device.is_cuda() ? at::kBFloat16 : at::kFloat;
  }
  static DecoderModule model_of(const Training& training, bool trained) {
    DecoderModule model(training.recipe.model, training.recipe.length(), training.device, type_of(training), trained);
    read_model(training.base, model);
    return model;
  }
  explicit TrainedScorer(const Training& training)
      : base(model_of(training, /*trained=*/false)),
        scorer(*training.recipe.scorer, training.recipe.model, training.device),
        student(training.recipe.scorer->all_weights ? model_of(training, /*trained=*/true) : base) {
    scorer.initialise(training.recipe.seed);
    if (!training.recipe.scorer->adapter) return;
    adapter.emplace(*training.recipe.scorer->adapter, training.recipe.model, training.device, type_of(training));
    adapter->initialise(training.recipe.seed ^ kAdapterSalt);
    student = base.adapted(*adapter);
  }

  /// Adds the gradients of one batch.
  StudentLosses learn(const at::Tensor& ids, const ScorerOptions& options, std::int64_t step, Random& random) const {
    StudentLosses losses;
    if (options.trains_base()) {
      losses = joint_lesson(base, student, scorer, ids, options, random);
    } else {
      losses.boundary = accumulate(base, scorer, ids, options, random);
    }
    if (options.output_weight > 0 && step >= options.output_after) {
      losses.distance = output_lesson(base, student, scorer, ids, options, random);
    }
    return losses;
  }
};

/// Of a scorer that was saved now: float32 beside a base that was trained here.
at::Tensor scores_now(const Training& training, TrainedScorer& trained, const at::Tensor& ids) {
  const ScorerOptions& options = *training.recipe.scorer;
  std::vector<FlatParameters*> rounded;
  if (!training.recipe.base) rounded.push_back(&trained.scorer.parameters());
  if (trained.adapter) rounded.push_back(&trained.adapter->parameters());
  if (options.all_weights) rounded.push_back(&trained.student.parameters());
  const AsSaved saved(rounded);
  return probe_scores(trained.student, trained.scorer, options.delay, ids);
}

/// What a step of the curve is the mean of, in the order of the curve's columns.
class LossSums {
 public:
  LossSums(const ScorerOptions& options, const at::Device& device)
      : with_output_(options.trains_base()),
        with_next_(options.kl_weight < 1),
        with_distance_(options.output_weight > 0),
        device_(device) {
    clear();
  }
  std::vector<std::string> columns() const {
    std::vector<std::string> names{"loss_boundary"};
    if (with_output_) names.emplace_back("loss_output");
    if (with_next_) names.emplace_back("loss_next");
    if (with_distance_) names.emplace_back(with_output_ ? "loss_distance" : "loss_output");
    return names;
  }
  void add(const StudentLosses& losses) {
    boundary_ += losses.boundary;
    if (losses.output.defined()) output_ += losses.output;
    if (losses.next.defined()) next_ += losses.next;
    if (losses.distance.defined()) distance_ += losses.distance;
  }
  std::vector<double> take(std::int64_t n_steps) {
    std::vector<double> values;
    const auto put = [&](const at::Tensor& sum) {
      values.push_back(sum.item<double>() / static_cast<double>(n_steps));
    };
    put(boundary_);
    if (with_output_) put(output_);
    if (with_next_) put(next_);
    if (with_distance_) put(distance_);
    clear();
    return values;
  }
  std::string describe(const std::vector<double>& values) const {
    const std::vector<std::string> names = columns();
    std::string all;
    for (std::size_t i = 0; i < names.size(); ++i) {
      char text[64];
      std::snprintf(text, sizeof text, "%s%s %.4f", i == 0 ? "" : "  ",
                    i == 0 ? "boundary loss" : names[i].substr(std::string("loss_").size()).c_str(), values[i]);
      all += text;
    }
    return all;
  }

 private:
  void clear() {
    for (at::Tensor* sum : {&boundary_, &output_, &next_, &distance_})
      *sum = at::zeros({}, at::TensorOptions(device_).dtype(at::kFloat));
  }

  bool with_output_, with_next_, with_distance_;
  at::Device device_;
  at::Tensor boundary_, output_, next_, distance_;
};

/// Where the base was trained here, the model's own scorer; else a gate's folder, in facts["folder"].
void save(const Training& training, const TrainedScorer& trained, nlohmann::json& facts) {
  const ScorerOptions& options = *training.recipe.scorer;
  if (training.recipe.base) return write_scorer(training.output, trained.scorer, options);
  const std::filesystem::path folder = training.output / name_of(options);
  const char* source = options.trains_base() ? "KVpop, Algorithm 1; " : "KVpop, eq. 7; ";
  trained.scorer.save(folder, source + training.recipe.name);
  if (trained.adapter) trained.adapter->save(folder, training.base.filename().string());
  if (options.all_weights) write_model_like(training.base, folder, trained.student);
  facts["folder"] = folder.string();
}

}  // namespace

nlohmann::json run_scorer_phase(const Training& training) {
  const Recipe& recipe = training.recipe;
  const ScorerOptions& options = *recipe.scorer;
  const FastProducts fast_products;
  // Sequences that the base has not seen: a scorer should not learn attention to memorised text.
  const auto sequences = training.sequences(recipe.seed ^ kScorerSalt);
  TrainedScorer trained(training);
  AdamW optimizer(trained.scorer.parameters(), options.optimizer);
  if (trained.adapter) {
    optimizer.add(trained.adapter->parameters(), options.adapter->learning_rate / options.optimizer.learning_rate);
  }
  if (options.all_weights) {
    optimizer.add(trained.student.parameters(), options.all_weights->learning_rate / options.optimizer.learning_rate);
  }
  LossSums sums(options, training.device);
  const auto heldout = training.heldout();
  std::vector<std::string> columns = sums.columns();
  if (options.accuracy_sequences > 0) columns.emplace_back("token_accuracy");
  nlohmann::json facts =
      run_steps(training, options, *sequences, optimizer,
                {.name = "scorer",
                 .loss_columns = columns,
                 .add_gradients =
                     [&](const Batch& batch, std::int64_t step) {
                       Random random(recipe.seed ^ kScorerSalt, static_cast<std::uint64_t>(step) + 1);
                       const at::Tensor ids = ids_tensor(batch, training.device).narrow(1, 0, recipe.length());
                       sums.add(trained.learn(ids, options, step, random));
                     },
                 // one budget a step: a single step's loss says little
                 .report =
                     [&](std::int64_t n_steps) {
                       std::vector<double> values = sums.take(n_steps);
                       if (options.accuracy_sequences > 0)
                         values.push_back(token_accuracy(trained.student, trained.scorer, *heldout, options));
                       return values;
                     },
                 .describe = [&](const std::vector<double>& values) { return sums.describe(values); },
                 .probe = [&](const at::Tensor& ids) { return scores_now(training, trained, ids); }});
  if (facts["status"] == "cancelled" || !training.leads()) return facts;
  facts.erase("last");
  save(training, trained, facts);
  facts["parameters"] = trained.scorer.parameters().n_elements() +
                        (trained.adapter ? trained.adapter->parameters().n_elements() : 0) +
                        (options.all_weights ? trained.student.parameters().n_elements() : 0);
  facts["heldout_oracle_recall"] = heldout_recall(trained.student, trained.scorer, *heldout, options);
  return facts;
}

}  // namespace kvscope::engine
