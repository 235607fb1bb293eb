#include "engine/decode/eviction/page_selection.h"

#include <algorithm>

#include "engine/model/model.h"
#include "engine/model/ops.h"
#include "kernels/page_bounds.h"
#include "kernels/select_pages.h"

namespace kvscope::engine {

PageSelection::PageSelection(SequenceState& sequence) : sequence_(sequence) {
  const Selection& selection = sequence.policy.plan().selection;
  const ModelConfig& config = sequence.model.config();
  const int max_pages = sequence.cache.max_pages();
  n_pages_ = std::clamp(selection.tokens / kPageSize, 1, max_pages);
  // Where slots were reused, every token of the window may be in a page of its own.
  max_selected_ = std::min(max_pages, n_pages_ + selection.window);
  const auto ints = at::TensorOptions().device(sequence.model.weights().device).dtype(at::kInt);
  rank_ = at::zeros({config.n_kv_heads, max_pages, static_cast<std::int64_t>(sizeof(kernels::PageRank))},
                    ints.dtype(at::kByte));
  page_table_ = at::zeros({config.n_kv_heads, max_selected_}, ints);
  slot_position_ = at::full({config.n_kv_heads, max_selected_ * kPageSize}, -1, ints);
  n_slots_ = at::zeros({config.n_kv_heads}, ints);
  selected_ = at::full({config.n_layers, config.n_kv_heads, max_selected_}, -1, ints);
  if (is_cuda()) host_ = std::make_unique<kernels::PinnedMemory>(selected_.nbytes());
}

kernels::SlotCacheView PageSelection::select(int layer, const void* q, const kernels::RetainDecision* decision,
                                             const std::int32_t* position, kernels::Stream stream) {
  const kernels::SlotCacheView cache = sequence_.cache.view(layer);
  const at::Tensor bounds = sequence_.page_bounds[layer];
  const kernels::PageBoundsArgs bounds_args = {.cache = cache, .decision = decision, .bounds = bounds.data_ptr()};
  const kernels::SelectPagesArgs args = {.cache = cache,
                                         .q = q,
                                         .bounds = bounds.data_ptr(),
                                         .position = position,
                                         .n_heads = sequence_.model.config().n_heads,
                                         .n_pages = n_pages_,
                                         .read_window = std::max(1, sequence_.policy.plan().selection.window),
                                         .max_selected = max_selected_,
                                         .rank = reinterpret_cast<kernels::PageRank*>(rank_.data_ptr()),
                                         .page_table = page_table_.data_ptr<std::int32_t>(),
                                         .slot_position = slot_position_.data_ptr<std::int32_t>(),
                                         .n_slots = n_slots_.data_ptr<std::int32_t>(),
                                         .selected = selected_[layer].data_ptr<std::int32_t>()};
  if (is_cuda()) {
    kernels::page_bounds(bounds_args, stream);
    kernels::select_pages(args, stream);
  } else {
    kernels::cpu::page_bounds(bounds_args);
    kernels::cpu::select_pages(args);
  }
  return selected_view(args);
}

void PageSelection::enqueue_copy(kernels::Stream stream) {
  if (is_cuda()) kernels::copy_async(host_->data(), selected_.data_ptr(), selected_.nbytes(), stream);
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

void read_page_bounds(SequenceState& sequence) {
  if (!sequence.page_bounds.defined()) return;
  for (int layer = 0; layer < sequence.model.config().n_layers; ++layer) {
    const kernels::PageBoundsArgs args = {
        .cache = sequence.cache.view(layer), .decision = nullptr, .bounds = sequence.page_bounds[layer].data_ptr()};
    if (sequence.page_bounds.is_cuda()) {
      kernels::page_bounds(args, ops::current_stream(sequence.page_bounds.device()));
    } else {
      kernels::cpu::page_bounds(args);
    }
  }
}

}  // namespace kvscope::engine
