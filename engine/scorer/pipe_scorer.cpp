// Scores of another program: `--gate pipe:COMMAND`. A prompt is sent chunk by chunk and layer by layer; of the answer one frame a
// token, with all its layers, when the step is over. So a score comes one token late: its token is still in the window then.
//
//     frame    six words of 32 bits: kind (1 score, 2 end), sequence, first position, tokens, layers, 0
//              the layers, a word each
//              what the program reads, in the model's type: keys, values [layers, n_kv_heads, tokens, head_dim],
//              hidden [layers, tokens, hidden_size]
//     answer   to kind 1: float32 [layers, n_kv_heads, tokens]
//
// Little endian, as every machine that this runs on. docs/reference/gates.md is the contract.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/support/patience.h"
#include "engine/model/place.h"
#include "engine/scorer/make_scorer.h"
#include "engine/scorer/scorer_process.h"
#include "kernels/step_graph.h"

namespace kvscope::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are in the machine's own order");

enum class FrameKind : std::uint32_t { score = 1, end = 2 };

void append(std::string& frame, const void* bytes, std::size_t n) { frame.append(static_cast<const char*>(bytes), n); }

std::string frame_of(FrameKind kind, std::uint32_t sequence, std::int64_t first, std::int64_t n,
                     std::span<const int> layers) {
  const std::uint32_t words[6] = {static_cast<std::uint32_t>(kind),          sequence,
                                  static_cast<std::uint32_t>(first),         static_cast<std::uint32_t>(n),
                                  static_cast<std::uint32_t>(layers.size()), 0};
  std::string frame;
  append(frame, words, sizeof words);
  for (const int layer : layers) append(frame, &layer, sizeof layer);
  return frame;
}

void append(std::string& frame, const at::Tensor& tensor) {
  const at::Tensor host = tensor.contiguous().cpu();
  append(frame, host.data_ptr(), host.nbytes());
}

/// Of one sequence: its number at the program, and what the next decode step needs.
struct PipeMemory final : ScorerMemory {
  std::shared_ptr<ScorerProcess> process;
  std::uint32_t sequence = 0;
  at::Tensor known;  // [n_layers, n_kv_heads] float32 on the model's device: the scores that the next token makes known
  at::Tensor x;  // [n_layers, hidden] float32 there: the residual stream of the last step; undefined unless it is read

  ~PipeMemory() override { process->tell(frame_of(FrameKind::end, sequence, 0, 0, {})); }
};

class PipeScorer final : public TokenScorer {
 public:
  PipeScorer(std::shared_ptr<ScorerProcess> process, std::string command, std::string greeting,
             const ModelConfig& config, const Weights& weights)
      : TokenScorer("pipe", process->offer().delay),
        command_(std::move(command)),
        greeting_(std::move(greeting)),
        config_(config),
        weights_(weights),
        offer_(process->offer()),
        process_(std::move(process)) {}

  std::string description() const override { return "pipe: " + offer_.name + ", delay " + std::to_string(delay()); }
  double weight_bytes() const override { return 0; }

  std::unique_ptr<ScorerMemory> new_memory() const override {
    start_again();
    auto memory = std::make_unique<PipeMemory>();
    memory->process = process_;
    memory->sequence = next_sequence_++;
    const auto floats = at::TensorOptions().device(weights_.device).dtype(at::kFloat);
    memory->known = at::full({config_.n_layers, config_.n_kv_heads}, std::numeric_limits<float>::quiet_NaN(), floats);
    if (offer_.hidden) memory->x = at::zeros({config_.n_layers, config_.hidden_size}, floats);
    return memory;
  }

  at::Tensor absorb(int layer, const LayerTokens& tokens, std::int64_t first, ScorerMemory* memory) const override {
    auto& own = static_cast<PipeMemory&>(*memory);
    const std::int64_t n = tokens.k.size(0);
    const int layers[] = {layer};
    std::string frame = frame_of(FrameKind::score, own.sequence, first, n, layers);
    if (offer_.keys) append(frame, tokens.k.transpose(0, 1));
    if (offer_.values) append(frame, tokens.v.transpose(0, 1));
    if (offer_.hidden) append(frame, tokens.input);
    const at::Tensor answer = ask(own, frame, layers, first, n)[0];  // column i is known with token first + i + 1
    const at::Tensor scores =
        at::cat({own.known[layer].unsqueeze(1).cpu(), answer.narrow(1, 0, n - 1)}, 1).contiguous();
    own.known[layer].copy_(answer.select(1, n - 1));
    const std::int64_t nobody = std::min(n, std::max<std::int64_t>(0, delay() - first));
    scores.narrow(1, 0, nobody).fill_(std::numeric_limits<float>::quiet_NaN());
    return scores;
  }

  void enqueue(const DecodeToken& token, kernels::Place place) const override {
    const auto& own = static_cast<const PipeMemory&>(*token.memory);
    copy(token.score, own.known[token.layer], place);
    if (!offer_.hidden) return;
    copy(own.x[token.layer].data_ptr(), token.x, own.x[token.layer].nbytes(), place);
  }

  bool scores_between_steps() const override { return true; }
  void score_newest(const NewestToken& token, ScorerMemory* memory) const override {
    auto& own = static_cast<PipeMemory&>(*memory);
    std::string frame = frame_of(FrameKind::score, own.sequence, token.position, 1, token.layers);
    if (offer_.keys && offer_.values) {
      append(frame, at::stack({token.k, token.v}));  // one copy from the device
    } else if (offer_.keys || offer_.values) {
      append(frame, offer_.keys ? token.k : token.v);
    }
    const at::Tensor layers = of_layers(token.layers);
    if (offer_.hidden) append(frame, layers.defined() ? hidden_of(own.x).index_select(0, layers) : hidden_of(own.x));
    const at::Tensor answer = ask(own, frame, token.layers, token.position, 1).select(2, 0);
    if (!layers.defined()) return void(own.known.copy_(answer));
    own.known.index_copy_(0, layers, answer.to(weights_.device));
  }

 private:
  static void copy(void* to, const void* from, std::size_t bytes, kernels::Place place) {
    if (place.backend == kernels::Backend::cuda) return kernels::copy_async(to, from, bytes, place.stream);
    std::memcpy(to, from, bytes);
  }
  static void copy(void* to, const at::Tensor& from, kernels::Place place) {
    copy(to, from.data_ptr(), from.nbytes(), place);
  }

  /// On the model's device; undefined if these are all.
  at::Tensor of_layers(std::span<const int> layers) const {
    if (std::ssize(layers) == config_.n_layers) return {};
    return at::tensor(at::ArrayRef<int>(layers.data(), layers.size()), at::kLong).to(weights_.device);
  }

  /// What enters attention, of all layers: [n_layers, hidden] of x, in the model's type.
  at::Tensor hidden_of(const at::Tensor& x) const {
    if (!norms_.defined()) {
      std::vector<at::Tensor> norms;
      std::vector<float> eps;
      std::vector<int> has_norm;
      for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
        const at::Tensor& norm = weights_.layers[i].input_norm;
        norms.push_back(norm.defined() ? norm.to(at::kFloat) + weights_.norm_offset : at::ones_like(x[0]));
        eps.push_back(config_.layers[i].norm_eps);
        has_norm.push_back(norm.defined());
      }
      norms_ = at::stack(norms);
      eps_ = at::tensor(eps).unsqueeze(1).to(weights_.device);
      has_norm_ = at::tensor(has_norm, at::kInt).unsqueeze(1).to(weights_.device, at::kBool);
    }
    const at::Tensor normed = x * at::rsqrt(x.square().mean(-1, true) + eps_) * norms_;
    return at::where(has_norm_, normed, x).to(weights_.dtype);
  }

  /// [layers, n_kv_heads, n] of the program's answer, on the host.
  at::Tensor ask(const PipeMemory& own, const std::string& frame, std::span<const int> layers, std::int64_t first,
                 std::int64_t n) const {
    at::Tensor scores = at::empty({static_cast<std::int64_t>(layers.size()), config_.n_kv_heads, n}, at::kFloat);
    const std::string_view answer = own.process->ask(frame, scores.nbytes());
    std::memcpy(scores.data_ptr(), answer.data(), answer.size());
    const float* score = scores.data_ptr<float>();
    for (const int layer : layers) {
      for (int head = 0; head < config_.n_kv_heads; ++head) {
        for (std::int64_t i = 0; i < n; ++i, ++score) {
          const std::int64_t token = first + i + 1 - delay();
          if (token < 0 || std::isfinite(*score)) continue;
          throw Error({.code = ExitCode::resource,
                       .file = own.process->name(),
                       .where = "layer " + std::to_string(layer) + ", head " + std::to_string(head) + ", position " +
                                std::to_string(token),
                       .found = std::isnan(*score) ? "a score that is NaN" : "an infinite score",
                       .expected = "a finite number"});
        }
      }
    }
    return scores;
  }

  /// A program that was lost ended the run that it scored. The next sequence has a new one.
  void start_again() const {
    if (!process_->is_lost()) return;
    auto process = std::make_shared<ScorerProcess>(command_, greeting_, default_patience());
    if (process->offer() != offer_)
      throw Error({.code = ExitCode::resource,
                   .file = process->name(),
                   .found = "another scorer than when the model was loaded",
                   .expected = "the same name, reads and delay",
                   .hint = "load the gate again"});
    process_ = std::move(process);
  }

  std::string command_, greeting_;
  ModelConfig config_;
  const Weights& weights_;
  ScorerOffer offer_;
  // One thread at a time uses a model (loaded_model.h), and what it learns from the scorer does not depend on these.
  mutable std::shared_ptr<ScorerProcess> process_;
  mutable std::uint32_t next_sequence_ = 0;
  // [n_layers, hidden], [n_layers, 1] float32, [n_layers, 1] bool; made when first asked for
  mutable at::Tensor norms_, eps_, has_norm_;
};

}  // namespace

std::unique_ptr<TokenScorer> make_pipe_scorer(const std::string& command, const ModelConfig& config,
                                              const Weights& weights) {
  const nlohmann::json greeting = {{"kvscope_scorer", 1},
                                   {"n_layers", config.n_layers},
                                   {"n_kv_heads", config.n_kv_heads},
                                   {"head_dim", config.head_dim},
                                   {"hidden_size", config.hidden_size},
                                   {"dtype", weights.dtype == at::kFloat ? "float32" : "bfloat16"}};
  auto process = std::make_shared<ScorerProcess>(command, greeting.dump(), default_patience());
  return std::make_unique<PipeScorer>(std::move(process), command, greeting.dump(), config, weights);
}

}  // namespace kvscope::engine
