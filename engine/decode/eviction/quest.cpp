// Quest (Tang et al., 2024): which pages of its cache a decode step reads. Nothing leaves by it.
#include <algorithm>

#include "engine/decode/eviction/sequence_state.h"
#include "engine/model/ops.h"
#include "kernels/page_bounds.h"
#include "kernels/select_pages.h"
#include "kernels/step_graph.h"

namespace kvscope::engine {

namespace {

class PageSelection final : public AttentionMethod {
 public:
  explicit PageSelection(SequenceState& state) : AttentionMethod(state) { resize(); }
  void after_prompt(int, StepFacts*) override { read_bounds(); }
  void after_chunk(int, StepFacts*) override {}  // every query chooses for itself, and nothing leaves
  /// Brings the layer's bounds up to the token that was placed, and chooses the pages.
  kernels::SlotCacheView select(const LayerStep& step, const kernels::SlotCacheView& cache) override;
  void end_step(kernels::Place place) override;
  void gather(std::int32_t q, StepFacts& facts) const override;
  void cache_changed() override;

 private:
  bool is_cuda() const { return selected_.is_cuda(); }
  const Selection& selection() const { return state_.policy.plan().selection; }
  /// Buffers for a cache of this size.
  void resize();
  /// Of all pages at once.
  void read_bounds();

  int n_pages_, max_selected_;
  /// Least and greatest of the keys of each page, [n_layers, n_kv_heads, max_pages, 2, head_dim] in the model's dtype.
  at::Tensor bounds_;
  at::Tensor rank_, page_table_, slot_position_, n_slots_;  // of one layer at a time
  at::Tensor selected_;                                     // [n_layers, n_kv_heads, max_selected_] int32
  std::unique_ptr<kernels::PinnedMemory> host_;             // CUDA only
};

void PageSelection::cache_changed() {
  if (bounds_.size(2) == state_.cache.max_pages()) {
    bounds_.zero_();
  } else {
    resize();
  }
  read_bounds();
}

void PageSelection::resize() {
  const ModelConfig& config = state_.model.config();
  const Weights& weights = state_.model.weights();
  const int max_pages = state_.cache.max_pages();
  n_pages_ = std::clamp(selection().tokens / kPageSize, 1, max_pages);
  // Where slots were reused, every token of the window may be in a page of its own.
  max_selected_ = std::min(max_pages, n_pages_ + selection().window);
  const auto ints = at::TensorOptions().device(weights.device).dtype(at::kInt);
  bounds_ = at::zeros({config.n_layers, config.n_kv_heads, max_pages, 2, config.head_dim}, ints.dtype(weights.dtype));
  rank_ = at::zeros({config.n_kv_heads, max_pages, static_cast<std::int64_t>(sizeof(kernels::PageRank))},
                    ints.dtype(at::kByte));
  page_table_ = at::zeros({config.n_kv_heads, max_selected_}, ints);
  slot_position_ = at::full({config.n_kv_heads, max_selected_ * kPageSize}, -1, ints);
  n_slots_ = at::zeros({config.n_kv_heads}, ints);
  selected_ = at::full({config.n_layers, config.n_kv_heads, max_selected_}, -1, ints);
  if (is_cuda()) host_ = std::make_unique<kernels::PinnedMemory>(selected_.nbytes());
}

void PageSelection::read_bounds() {
  for (int layer = 0; layer < state_.model.config().n_layers; ++layer) {
    kernels::page_bounds({.cache = state_.cache.view(layer), .decision = nullptr, .bounds = bounds_[layer].data_ptr()},
                         ops::place_of(bounds_.device()));
  }
}

kernels::SlotCacheView PageSelection::select(const LayerStep& step, const kernels::SlotCacheView& cache) {
  if (step.layer < selection().dense_layers || state_.policy.is_local_layer(step.layer)) return cache;
  const at::Tensor bounds = bounds_[step.layer];
  const kernels::SelectPagesArgs args = {.cache = cache,
                                         .q = step.q,
                                         .bounds = bounds.data_ptr(),
                                         .position = step.position,
                                         .n_heads = state_.model.config().n_heads,
                                         .n_pages = n_pages_,
                                         .read_window = std::max(1, selection().window),
                                         .max_selected = max_selected_,
                                         .rank = reinterpret_cast<kernels::PageRank*>(rank_.data_ptr()),
                                         .page_table = page_table_.data_ptr<std::int32_t>(),
                                         .slot_position = slot_position_.data_ptr<std::int32_t>(),
                                         .n_slots = n_slots_.data_ptr<std::int32_t>(),
                                         .selected = selected_[step.layer].data_ptr<std::int32_t>()};
  kernels::page_bounds({.cache = cache, .decision = step.decision, .bounds = bounds.data_ptr()}, step.place);
  kernels::select_pages(args, step.place);
  return selected_view(args);
}

void PageSelection::end_step(kernels::Place place) {
  if (is_cuda()) kernels::copy_async(host_->data(), selected_.data_ptr(), selected_.nbytes(), place.stream);
}

void PageSelection::gather(std::int32_t q, StepFacts& facts) const {
  const auto* pages = is_cuda() ? static_cast<const std::int32_t*>(host_->data()) : selected_.data_ptr<std::int32_t>();
  for (std::int32_t layer = 0; layer < selected_.size(0); ++layer) {
    for (std::int32_t head = 0; head < selected_.size(1); ++head, pages += max_selected_) {
      const auto n = static_cast<std::int32_t>(std::find(pages, pages + max_selected_, -1) - pages);
      if (n == 0) continue;
      facts.reads.push_back({q, static_cast<std::int16_t>(layer), static_cast<std::int16_t>(head), {pages, pages + n}});
    }
  }
}

}  // namespace

std::unique_ptr<AttentionMethod> make_page_selection(SequenceState& state) {
  return std::make_unique<PageSelection>(state);
}

}  // namespace kvscope::engine
