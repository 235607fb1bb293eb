#include "views/widgets/counted_maps.h"

namespace kvscope::views {
namespace {

constexpr std::int64_t kAtOnce = 1 << 20;  // lifetimes

std::vector<const RunRecord*> pointers_to(const std::vector<std::shared_ptr<const RunRecord>>& runs) {
  std::vector<const RunRecord*> pointers;
  for (const auto& run : runs) pointers.push_back(run.get());
  return pointers;
}

}  // namespace

void CountedMaps::update(const ViewContext& context, const LayerHeadMapOptions& options) {
  const bool with_b = options.compare != MapCompare::none;
  const Key key{RunKey(context.a), RunKey(with_b ? context.b : nullptr), options.metric, options.q, options.compare};
  if (auto counted = beside_.take()) take(std::move(*counted));
  if (beside_.is_busy() || !recount_.due(key)) return;
  Runs runs = {context.a->run};
  if (with_b) runs.push_back(context.b->run);
  std::int64_t lifetimes = 0;
  for (const auto& run : runs)
    lifetimes += static_cast<std::int64_t>(run->n_tokens()) * run->evict_at.n_layers() * run->evict_at.n_kv_heads();
  auto make = [runs = std::move(runs), options]() -> Counted {
    return {options, layer_head_maps(pointers_to(runs), options), runs};
  };
  if (lifetimes <= kAtOnce) return take(make());
  beside_.post(std::move(make));
}

void CountedMaps::take(Counted counted) {
  counted_ = std::move(counted);
  ++n_;
  recount_.done();
}

std::vector<const RunRecord*> CountedMaps::runs() const { return pointers_to(counted_->runs); }

LayerHeadMapOptions CountedMaps::with_look(LayerHeadMapOptions now) const {
  const LayerHeadMapOptions& of = counted_->options;
  now.metric = of.metric, now.q = of.q, now.compare = of.compare;
  now.name_a = of.name_a, now.name_b = of.name_b;
  if (of.compare == MapCompare::none) now.lock = true;
  if (of.compare == MapCompare::difference) now.fit = true;
  return now;
}

}  // namespace kvscope::views
