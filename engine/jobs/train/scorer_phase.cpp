#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <cstdio>

#include "engine/jobs/train/boundary_loss.h"
#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/future_target.h"
#include "engine/jobs/train/phase.h"
#include "engine/jobs/train/scorer_module.h"

namespace kvscope::engine {
namespace {

/// What the teacher says of one layer.
struct LayerLesson {
  at::Tensor k, v;    // [B, T, HK, D]
  at::Tensor target;  // [HK, B, T]
};

/// One dense pass of the frozen base, lesson by lesson: `use` is called after each layer, and its tensors go then.
template <typename Use>
void teach(const DecoderModule& base, const at::Tensor& ids, const ScorerOptions& options, const Use& use) {
  at::Tensor x;
  {
    const c10::NoGradGuard no_grad;
    x = base.embed(ids);
  }
  for (int layer = 0; layer < base.config().n_layers; ++layer) {
    LayerLesson lesson;
    {
      const c10::NoGradGuard no_grad;
      const auto heads = base.project(layer, x);
      const at::Tensor weight = value_weight(heads.v, options.weight, base.output_projection(layer));
      const auto teacher = teacher_attention(heads.q, heads.k, heads.v, options.window, options.mass,
                                             base.config().attention_scale(layer), weight);
      lesson = {heads.k, heads.v, teacher.target};
      x = base.finish(layer, x, teacher.output);
    }
    use(layer, lesson);
  }
}

/// Adds the gradients of the boundary loss of all layers for one batch; returns the mean loss on the device. Only the
/// tokens of the sampled contests are scored.
at::Tensor accumulate(const DecoderModule& base, const ScorerModule& scorer, const at::Tensor& ids,
                      const ScorerOptions& options, Random& random) {
  at::Tensor total = at::zeros({}, at::TensorOptions(ids.device()).dtype(at::kFloat));
  const int n_layers = base.config().n_layers;
  teach(base, ids, options, [&](int layer, const LayerLesson& lesson) {
    const int top_k = options.top_k[random.below(options.top_k.size())];
    const auto queries = sample_queries(random, options, top_k, static_cast<int>(ids.size(1)));
    const BoundaryPairs pairs = boundary_pairs(lesson.target, queries, top_k, options);
    const at::Tensor tokens = at::cat({pairs.newcomer, pairs.boundary}, 2);  // [HK, B, 2Q]
    const auto halves = scorer.priorities(layer, scorer.scores(layer, lesson.k, lesson.v, tokens), tokens).chunk(2, 2);
    const at::Tensor loss = boundary_loss(halves[0], halves[1], pairs, options.temperature);
    loss.backward();
    total += loss.detach() / n_layers;
  });
  return total;
}

/// Mean oracle recall on held-out sequences, by long-range budget: {"60": {"mean", "by_layer"}, ...}.
nlohmann::json heldout_recall(const DecoderModule& base, const ScorerModule& scorer, const SequenceSource& heldout,
                              const ScorerOptions& options) {
  const c10::NoGradGuard no_grad;
  constexpr int kAtOnce = 2;
  const int n_layers = base.config().n_layers, n_positions = heldout.length();
  std::map<int, at::Tensor> sums;  // [L, HK]
  int n_batches = 0;
  for (int first = 0; first + kAtOnce <= std::max(kAtOnce, options.heldout_sequences); first += kAtOnce, ++n_batches) {
    const Batch batch = make_batch(heldout, static_cast<std::uint64_t>(first), kAtOnce);
    const at::Tensor ids = ids_tensor(batch, base.embedding().device()).narrow(1, 0, n_positions);
    teach(base, ids, options, [&](int layer, const LayerLesson& lesson) {
      const at::Tensor raw = scorer.scores(layer, lesson.k, lesson.v);
      const at::Tensor scores =
          scorer.priorities(layer, raw, at::arange(raw.size(2), at::kLong).to(raw.device()).expand_as(raw));
      for (const int top_k : options.top_k) {
        auto& sum = sums[top_k];
        if (!sum.defined()) sum = at::zeros({n_layers, scores.size(0)});
        sum.select(0, layer).add_(oracle_recall(scores, lesson.target, options.n_sink, options.window, top_k));
      }
    });
  }
  nlohmann::json result;
  for (const auto& [top_k, sum] : sums) {
    const at::Tensor recall = sum / n_batches;
    nlohmann::json by_layer;
    for (int layer = 0; layer < n_layers; ++layer) by_layer.push_back(recall.select(0, layer).mean().item<double>());
    result[std::to_string(top_k)] = {{"mean", recall.mean().item<double>()}, {"by_layer", by_layer}};
  }
  return result;
}

/// "kvpop", and what is not the base of the paper's comparisons: "kvpop-mlp-rms-decay".
std::string name_of(const ScorerOptions& options) {
  std::string name = "kvpop";
  if (options.kind == GateKind::kvpop_mlp) name += "-mlp";
  if (options.kind == GateKind::kvpop_linear) name += "-linear";
  if (options.kind == GateKind::kvpop_mlstm && options.delay == 0) name += "-immediate";
  if (options.mass != FutureMass::mean)
    name += options.mass == FutureMass::sum ? "-sum" : options.mass == FutureMass::rms ? "-rms" : "-max";
  if (options.weight != TargetWeight::mass) name += options.weight == TargetWeight::value ? "-value" : "-output";
  if (options.decay) name += "-decay";
  if (options.window != ScorerOptions().window) name += "-w" + std::to_string(options.window);
  return name;
}

/// Products in TF32 while it lives: the teacher's probabilities need float32's range, not its last bits.
class FastProducts {
 public:
  FastProducts() { at::globalContext().setFloat32MatmulPrecision("high"); }
  ~FastProducts() { at::globalContext().setFloat32MatmulPrecision("highest"); }
};

}  // namespace

nlohmann::json run_scorer_phase(const Training& training) {
  const Recipe& recipe = training.recipe;
  const ScorerOptions& options = *recipe.scorer;
  const FastProducts fast_products;
  // Sequences that the base has not seen: a scorer should not learn attention to memorised text.
  const auto sequences = training.sequences(recipe.seed ^ kScorerSalt);
  DecoderModule base(recipe.model, recipe.length(), training.device, at::kFloat, /*trained=*/false);
  read_model(training.base, base);
  ScorerModule scorer(options, recipe.model, training.device);
  scorer.initialise(recipe.seed);
  AdamW optimizer(scorer.parameters(), options.optimizer);
  at::Tensor sum = at::zeros({}, at::TensorOptions(training.device).dtype(at::kFloat));
  nlohmann::json facts =
      run_steps(training, options, *sequences, optimizer,
                {.name = "scorer",
                 .loss_columns = {"loss_boundary"},
                 .add_gradients =
                     [&](const Batch& batch, std::int64_t step) {
                       Random random(recipe.seed ^ kScorerSalt, static_cast<std::uint64_t>(step) + 1);
                       const at::Tensor ids = ids_tensor(batch, training.device).narrow(1, 0, recipe.length());
                       sum += accumulate(base, scorer, ids, options, random);
                     },
                 .report = [&](std::int64_t n_steps) {  // one budget a step: a single step's loss says little
                   const double loss = sum.item<double>() / static_cast<double>(n_steps);
                   sum.zero_();
                   char text[64];
                   std::snprintf(text, sizeof text, "boundary loss %.4f", loss);
                   return LossReport{{loss}, text};
                 }});
  if (facts["status"] == "cancelled") return facts;
  facts.erase("last");
  if (recipe.base) {
    write_scorer(training.output, scorer, options);
  } else {
    const std::string name = name_of(options);
    scorer.save(training.output / name, "KVpop, eq. 7; " + recipe.name);
    facts["folder"] = (training.output / name).string();
  }
  facts["parameters"] = scorer.parameters().n_elements();
  facts["heldout_oracle_recall"] = heldout_recall(base, scorer, *training.heldout(), options);
  return facts;
}

}  // namespace kvscope::engine
