#include "views/widgets/counted_maps.h"

namespace kvscope::views {
namespace {

constexpr std::int64_t kAtOnce = 1 << 20;  // looks at a lifetime
constexpr std::int64_t kOfOracle = 8;      // that an oracle's choice among them costs

std::int64_t lifetimes_of(const RunRecord& run) {
  return static_cast<std::int64_t>(run.n_tokens()) * run.evict_at.n_layers() * run.evict_at.n_kv_heads();
}

}  // namespace

std::vector<RunKey> keys_of(const std::vector<ShownRun>& shown) {
  std::vector<RunKey> keys;
  for (const ShownRun& run : shown) keys.emplace_back(&run);
  return keys;
}

std::vector<std::shared_ptr<const RunRecord>> records_of(const std::vector<ShownRun>& shown) {
  std::vector<std::shared_ptr<const RunRecord>> records;
  for (const ShownRun& run : shown) records.push_back(run.run);
  return records;
}

std::vector<const RunRecord*> pointers_to(const std::vector<std::shared_ptr<const RunRecord>>& runs) {
  std::vector<const RunRecord*> pointers;
  for (const auto& run : runs) pointers.push_back(run.get());
  return pointers;
}

bool is_counted_at_once(const std::vector<std::shared_ptr<const RunRecord>>& runs, Metric metric) {
  const bool mean = metric == Metric::mean_recall || metric == Metric::above_chance;
  std::int64_t looks = 0;
  for (const auto& run : runs)
    looks += lifetimes_of(*run) * (mean ? run->n_tokens() : metric_info(metric).needs_oracle ? kOfOracle : 1);
  return looks <= kAtOnce;
}

void CountedMaps::update(const std::vector<ShownRun>& shown, const LayerHeadMapOptions& options) {
  const Key key{keys_of(shown), options.metric, options.q, options.compare, options.aggregate};
  if (auto counted = background_.take()) take(std::move(*counted));
  if (background_.is_busy() || !recount_.due(key)) return;
  const Runs runs = records_of(shown);
  auto make = [runs, options]() -> Counted { return {options, layer_head_maps(pointers_to(runs), options), runs}; };
  if (is_counted_at_once(runs, options.metric)) return take(make());
  background_.post(std::move(make));
}

void CountedMaps::take(Counted counted) {
  counted_ = std::move(counted);
  ++n_;
  recount_.done();
}

std::vector<const RunRecord*> CountedMaps::runs() const { return pointers_to(counted_->runs); }

LayerHeadMapOptions CountedMaps::with_look(LayerHeadMapOptions now) const {
  const LayerHeadMapOptions& of = counted_->options;
  now.metric = of.metric, now.q = of.q, now.compare = of.compare, now.aggregate = of.aggregate;
  now.name_a = of.name_a, now.name_b = of.name_b;
  if (of.compare == MapCompare::none) now.lock = true;
  if (of.compare == MapCompare::difference) now.fit = true;
  return now;
}

}  // namespace kvscope::views
