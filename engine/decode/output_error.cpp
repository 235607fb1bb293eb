#include "engine/decode/output_error.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "engine/core/support/error.h"
#include "engine/decode/eviction/slot_cache.h"
#include "engine/model/ops.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {
namespace {

/// Queries of one pass. On the CPU few enough for ops::linear() to give the same bytes every time.
std::int64_t chunk_of(const Weights& weights) { return weights.device.is_cuda() ? 1024 : 128; }

/// Attention of some queries over what they kept or over what they lost.
struct OutputPart {
  at::Tensor o;    // [n, n_heads, head_dim]
  at::Tensor lse;  // [n_heads, n] float32, -inf over nothing
};

/// The run's lifetimes, [n_layers, n_kv_heads, n] int32 on the device; open ones count as kept.
at::Tensor lifetimes_of(const LifetimeMap& map, std::int64_t n, c10::Device device) {
  at::Tensor host = at::full({map.n_layers(), map.n_kv_heads(), n}, kUndecided, at::kInt);
  std::int32_t* to = host.data_ptr<std::int32_t>();
  for (int layer = 0; layer < map.n_layers(); ++layer) {
    for (int head = 0; head < map.n_kv_heads(); ++head, to += n) {
      const std::vector<std::int32_t>& row = map.row(layer, head);
      std::copy_n(row.begin(), std::min<std::int64_t>(n, std::ssize(row)), to);
    }
  }
  return host.to(device);
}

/// Attention as the run had it, and what it lost by that.
class DamageHook final : public AttentionHook {
 public:
  DamageHook(const LoadedModel& model, const RunRecord& run, const Hooks& hooks)
      : model_(model), hooks_(hooks), n_queries_(run.queries()), reads_(model.config().n_layers) {
    const ModelConfig& config = model.config();
    const Weights& weights = model.weights();
    const auto options = at::TensorOptions().device(weights.device);
    keys_ = at::empty({config.n_layers, n_queries_, config.n_kv_heads, config.head_dim}, options.dtype(weights.dtype));
    values_ = at::empty_like(keys_);
    evict_at_ = lifetimes_of(run.evict_at, n_queries_, weights.device);
    for (const PageRead& read : run.reads) reads_[read.layer].push_back(&read);
    next_read_.resize(reads_.size(), 0);
    const auto floats = options.dtype(at::kFloat);
    group_damage_ = at::empty({config.n_layers, config.n_kv_heads, n_queries_}, floats);
    layer_damage_ = at::empty({config.n_layers, 1, n_queries_}, floats);
    layer_output_ = at::empty_like(layer_damage_);
    read_mass_ = at::full({config.n_layers, config.n_kv_heads, n_queries_}, std::nan(""), at::kFloat);
    best_read_mass_ = read_mass_.clone();
  }

  void begin(std::int64_t first) { first_ = first; }
  at::Tensor attend(int layer, const LayerTokens& tokens) override;
  OutputErrorFacts facts() const;

 private:
  /// Of queries q at positions first ..., every head seeing key t while t <= query < evict_at[t], and what it does not
  /// see any more: evict_at [n_kv_heads, keys] is also the position from which on the complement holds t.
  std::pair<OutputPart, OutputPart> kept_and_lost(int layer, const at::Tensor& q, std::int64_t first,
                                                  const at::Tensor& evict_at, const AttentionScores& scores) const;
  /// Puts the queries of this chunk that read only some pages in their places, each on its own.
  void attend_by_pages(int layer, const LayerTokens& tokens, OutputPart& kept, OutputPart& lost);
  /// evict_at of one query for which a key is either there or gone, [n_kv_heads, q + 1].
  at::Tensor as_read(int layer, std::int32_t q, std::span<const PageRead* const> reads) const;
  void measure(int layer, const OutputPart& kept, const OutputPart& lost);
  /// How much of one query's dense attention lies on the pages that were read. q: [1, n_heads, head_dim].
  void note_reads(int layer, const at::Tensor& q, std::int32_t position, std::span<const PageRead* const> reads,
                  const AttentionScores& scores);

  const LoadedModel& model_;
  const Hooks& hooks_;
  std::int64_t n_queries_, first_ = 0;
  std::vector<std::vector<const PageRead*>> reads_;  // [n_layers], queries rising
  std::vector<std::size_t> next_read_;               // [n_layers] the first that is not of an earlier chunk
  at::Tensor keys_, values_;                         // [n_layers, n_queries, n_kv_heads, head_dim]
  at::Tensor evict_at_;                              // [n_layers, n_kv_heads, n_queries]
  at::Tensor group_damage_, layer_damage_, layer_output_;
  at::Tensor read_mass_, best_read_mass_;  // [n_layers, n_kv_heads, n_queries] on the host
};

at::Tensor DamageHook::attend(int layer, const LayerTokens& tokens) {
  if (hooks_.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
  const std::int64_t n = tokens.q.size(0);
  if (hooks_.progress) {
    const std::int64_t through = first_ + n * layer / model_.config().n_layers;  // tokens
    hooks_.progress("output error", static_cast<double>(through), static_cast<double>(n_queries_));
  }
  keys_[layer].narrow(0, first_, n).copy_(tokens.k);
  values_[layer].narrow(0, first_, n).copy_(tokens.v);
  const at::Tensor evict_at = evict_at_[layer].narrow(1, 0, first_ + n).contiguous();
  auto [kept, lost] = kept_and_lost(layer, tokens.q, first_, evict_at, tokens.scores);
  if (tokens.window > 0) {  // what the layer's own window hides is no loss
    lost.o = at::zeros_like(kept.o);
    lost.lse.fill_(-std::numeric_limits<float>::infinity());
  }
  attend_by_pages(layer, tokens, kept, lost);
  measure(layer, kept, lost);
  return kept.o;
}

std::pair<OutputPart, OutputPart> DamageHook::kept_and_lost(int layer, const at::Tensor& q, std::int64_t first,
                                                            const at::Tensor& evict_at,
                                                            const AttentionScores& scores) const {
  const std::int64_t n_keys = evict_at.size(1);
  const at::Tensor k = keys_[layer].narrow(0, 0, n_keys).transpose(0, 1);
  const at::Tensor v = values_[layer].narrow(0, 0, n_keys).transpose(0, 1);
  const auto empty_lse = [&] { return at::empty({q.size(1), q.size(0)}, group_damage_.options()); };
  OutputPart kept{{}, empty_lse()}, lost{{}, empty_lse()};
  kept.o = ops::lifetime_attention(q, {k, v, evict_at}, first, scores, kept.lse);
  // A sink is in the denominator once: with what is kept.
  lost.o = ops::lifetime_attention(q, {k, v, {}, evict_at}, first, scores.without_sink(), lost.lse);
  return {std::move(kept), std::move(lost)};
}

void DamageHook::attend_by_pages(int layer, const LayerTokens& tokens, OutputPart& kept, OutputPart& lost) {
  const std::vector<const PageRead*>& reads = reads_[layer];
  std::size_t& next = next_read_[layer];
  while (next < reads.size() && reads[next]->q < first_ + tokens.q.size(0)) {
    const std::int32_t q = reads[next]->q;
    const std::size_t begin = next;
    while (next < reads.size() && reads[next]->q == q) ++next;
    const at::Tensor evict_at = as_read(layer, q, std::span(reads).subspan(begin, next - begin));
    const std::int64_t row = q - first_;
    note_reads(layer, tokens.q.narrow(0, row, 1), q, std::span(reads).subspan(begin, next - begin), tokens.scores);
    const auto [with, without] = kept_and_lost(layer, tokens.q.narrow(0, row, 1), q, evict_at, tokens.scores);
    for (const auto& [to, from] : {std::pair(&kept, &with), std::pair(&lost, &without)}) {
      to->o.narrow(0, row, 1).copy_(from->o);
      to->lse.narrow(1, row, 1).copy_(from->lse);
    }
  }
}

void DamageHook::note_reads(int layer, const at::Tensor& q, std::int32_t position,
                            std::span<const PageRead* const> reads, const AttentionScores& scores) {
  const std::int64_t n_pages = position / kPageSize, n_older = n_pages * kPageSize;  // before the query's own page
  if (n_pages == 0) return;
  const ModelConfig& config = model_.config();
  const at::Tensor k = keys_[layer].narrow(0, 0, n_older).to(at::kFloat).permute({1, 2, 0});  // [heads, dim, older]
  const at::Tensor by_group = q.to(at::kFloat).view({config.n_kv_heads, config.group_size(), config.head_dim});
  const at::Tensor p = scores.score_(by_group.matmul(k)).softmax(-1);  // of what is on pages: no sink
  const at::Tensor pages =
      p.view({config.n_kv_heads, config.group_size(), n_pages, kPageSize}).sum(-1).mean(1).cpu().contiguous();
  for (const PageRead* read : reads) {
    const float* of_head = pages.data_ptr<float>() + read->kv_head * n_pages;
    std::vector<float> shares(of_head, of_head + n_pages);
    double sum = 0, best = 0;
    std::ptrdiff_t n_read = 0;
    for (const std::int32_t page : read->pages) {
      if (page >= n_pages) continue;
      sum += shares[static_cast<std::size_t>(page)];
      ++n_read;
    }
    std::nth_element(shares.begin(), shares.begin() + n_read, shares.end(), std::greater<>());
    for (std::ptrdiff_t i = 0; i < n_read; ++i) best += shares[static_cast<std::size_t>(i)];
    const std::int64_t at =
        (static_cast<std::int64_t>(layer) * config.n_kv_heads + read->kv_head) * n_queries_ + position;
    read_mass_.data_ptr<float>()[at] = static_cast<float>(sum);
    best_read_mass_.data_ptr<float>()[at] = static_cast<float>(best);
  }
}

at::Tensor DamageHook::as_read(int layer, std::int32_t q, std::span<const PageRead* const> reads) const {
  const std::int64_t n_keys = q + 1, n_pages = (n_keys + kPageSize - 1) / kPageSize;
  at::Tensor host = at::ones({evict_at_.size(1), n_pages}, at::kBool);  // a head without a read sees all that it has
  for (const PageRead* read : reads) {
    at::Tensor row = host[read->kv_head];
    row.zero_();
    for (const std::int32_t page : read->pages) {
      if (page < n_pages) row.data_ptr<bool>()[page] = true;
    }
  }
  const at::Tensor read = host.to(evict_at_.device()).repeat_interleave(kPageSize, 1).narrow(1, 0, n_keys);
  const at::Tensor seen = read.logical_and(evict_at_[layer].narrow(1, 0, n_keys).gt(q));
  // 0 is before every query: gone. kNever is behind every one: there.
  return seen.to(at::kInt).mul_(kNever);
}

void DamageHook::measure(int layer, const OutputPart& kept, const OutputPart& lost) {
  const ModelConfig& config = model_.config();
  const std::int64_t n = kept.o.size(0), group = config.group_size(), width = group * config.head_dim;
  const at::Tensor weight = model_.weights().layers[layer].o_proj.to(at::kFloat);  // [hidden, n_heads * head_dim]
  const at::Tensor o = kept.o.to(at::kFloat);
  const at::Tensor share = (lost.lse - kept.lse).sigmoid_().t().unsqueeze(-1);  // Z_e / (Z_k + Z_e), [n, n_heads, 1]
  const at::Tensor damage = ((lost.o.to(at::kFloat) - o) * share).view({n, -1});
  const at::Tensor whole = ops::linear(o.reshape({n, -1}) + damage, weight);  // [n, hidden]
  layer_output_[layer][0].narrow(0, first_, n).copy_(whole.norm(2, 1));

  // Query heads of a group see the same keys: the first tells whether any is lost.
  const at::Tensor nothing = lost.lse.view({config.n_kv_heads, group, n}).select(1, 0).isinf();  // [n_kv_heads, n]
  at::Tensor sum = at::zeros_like(whole);
  const float none = std::numeric_limits<float>::quiet_NaN();
  for (int head = 0; head < config.n_kv_heads; ++head) {
    const at::Tensor part = ops::linear(damage.narrow(1, head * width, width).contiguous(),
                                        weight.narrow(1, head * width, width).contiguous());
    group_damage_[layer][head].narrow(0, first_, n).copy_(part.norm(2, 1).masked_fill(nothing[head], none));
    sum.add_(part);
  }
  layer_damage_[layer][0].narrow(0, first_, n).copy_(sum.norm(2, 1).masked_fill(nothing.all(0), none));
}

OutputErrorFacts DamageHook::facts() const {
  OutputErrorFacts facts{OutputError(model_.config().n_layers, model_.config().n_kv_heads)};
  const auto fill = [&](const at::Tensor& there, HeadSeries<float>& series) {
    const at::Tensor host = there.cpu().contiguous();
    const float* from = host.data_ptr<float>();
    for (int layer = 0; layer < series.n_layers(); ++layer) {
      for (int head = 0; head < series.n_kv_heads(); ++head, from += n_queries_) {
        series.row(layer, head).assign(from, from + n_queries_);
      }
    }
  };
  fill(group_damage_, facts.error.group_damage);
  fill(layer_damage_, facts.error.layer_damage);
  fill(layer_output_, facts.error.layer_output);
  fill(read_mass_, facts.error.read_mass);
  fill(best_read_mass_, facts.error.best_read_mass);
  return facts;
}

/// Log-probabilities of the tokens behind the chunk's, as far as the run goes.
void append_logprobs(const Weights& weights, const at::Tensor& hidden, std::span<const std::int32_t> next,
                     std::vector<float>& out) {
  const auto n = static_cast<std::int64_t>(next.size());
  if (n == 0) return;
  const at::Tensor logits = logits_of(weights, hidden.narrow(0, 0, n));
  const at::Tensor ids = ids_tensor(weights, next.data(), n).unsqueeze(1);
  const at::Tensor logprobs = (logits.gather(1, ids).squeeze(1) - logits.logsumexp(1)).cpu();
  out.insert(out.end(), logprobs.data_ptr<float>(), logprobs.data_ptr<float>() + n);
}

void check_reads(const RunRecord& run) {
  for (const PageRead& read : run.reads) {
    const std::vector<std::int32_t>& row = run.evict_at.row(read.layer, read.kv_head);
    if (std::ranges::all_of(row, [](std::int32_t evict_at) { return evict_at >= kUndecided; })) continue;
    throw Error({.code = ExitCode::usage,
                 .file = "output error",
                 .found = "a run that both evicts and reads pages",
                 .expected = "a policy that does only one of the two, because pages are recorded by slot"});
  }
}

}  // namespace

OutputErrorFacts measure_output_error(const LoadedModel& model, const RunRecord& run, const Hooks& hooks,
                                      std::vector<float>* logprobs) {
  const c10::InferenceMode no_gradients;
  check_reads(run);
  const Weights& weights = model.weights();
  const std::span<const std::int32_t> ids(run.ids);
  const std::int64_t n_queries = run.queries();
  DamageHook hook(model, run, hooks);
  if (logprobs != nullptr) logprobs->assign(1, std::numeric_limits<float>::quiet_NaN());
  const std::int64_t chunk = chunk_of(weights);
  for (std::int64_t first = 0; first < n_queries; first += chunk) {
    const std::int64_t n = std::min(chunk, n_queries - first);
    hook.begin(first);
    const at::Tensor hidden = forward(model.config(), weights, ids_tensor(weights, ids.data() + first, n), first, hook);
    if (logprobs == nullptr) continue;
    const std::int64_t n_next = std::min(n, n_queries - 1 - first);
    append_logprobs(weights, hidden, ids.subspan(first + 1, n_next), *logprobs);
  }
  return hook.facts();
}

}  // namespace kvscope::engine
