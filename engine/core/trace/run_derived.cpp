#include "engine/core/trace/run_derived.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/text.h"

namespace kvscope::trace {

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kRounding = 1e-3f;  // sums of shares may come to a little more than 1

/// Whether every query of the run can be asked about every token before it. Runs that failed may have shorter rows.
bool has_lifetimes(const RunRecord& run) {
  if (run.ids.empty() || run.evict_at.empty()) return false;
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer)
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head)
      if (run.evict_at.row(layer, head).size() < run.ids.size()) return false;
  return run.queries() <= run.n_tokens();
}

/// verdict_code() of every token.
std::vector<std::uint8_t> verdict_column(const RunRecord& run) {
  const auto n_heads = static_cast<std::size_t>(run.model.n_layers) * static_cast<std::size_t>(run.model.n_kv_heads);
  std::vector<std::uint8_t> column(n_heads * run.ids.size(), kNotJudged);
  std::size_t at = 0;
  for (const auto& head : eviction_verdicts(run)) {
    for (const VerdictOfEviction& found : head) {
      column[at++] = verdict_code(found);
    }
  }
  return column;
}

/// Of a run that may have failed for this very reason (a budget smaller than its window): none then, n_sink -1.
RetentionGeometry derived_geometry(const RunRecord& run) {
  try {
    return run.geometry();
  } catch (const Error&) {
    return {.n_sink = -1, .window = -1, .top_k = -1, .log_gamma = 0, .decay_stride = 1};
  }
}

bool has_geometry(const RetentionGeometry& geometry) { return geometry.n_sink >= 0; }

std::vector<float> derived_density(const RunRecord& run, const RetentionGeometry& geometry) {
  if (has_geometry(geometry) && has_lifetimes(run)) return head_metric(run, Metric::density, run.queries() - 1).values;
  return std::vector<float>(static_cast<std::size_t>(run.model.n_layers) * run.model.n_kv_heads, kNaN);
}

/// Calls visit(dataset, member) for each number of a geometry.
template <typename Visit>
void visit_geometry(const RetentionGeometry& geometry, Visit visit) {
  visit(Dataset::n_sink, static_cast<std::int32_t>(geometry.n_sink));
  visit(Dataset::window, static_cast<std::int32_t>(geometry.window));
  visit(Dataset::top_k, static_cast<std::int32_t>(geometry.top_k));
  visit(Dataset::log_gamma, geometry.log_gamma);
  visit(Dataset::decay_stride, static_cast<std::int32_t>(geometry.decay_stride));
}

class DerivedCheck {
 public:
  DerivedCheck(const RunBlock& block, const std::string& file) : block_(block), file_(file) {}

  void in_range(Dataset id, float most) const {
    for (const float value : block_.values<float>(id))
      if (value < 0 || value > most) fail(id, number_text(value), most > 2 ? "0 or more, or NaN" : "0 to 1, or NaN");
  }
  void verdicts() const {
    for (const auto value : block_.values<std::uint8_t>(Dataset::eviction_verdict))
      if (value > 3 && value != kNotJudged) fail(Dataset::eviction_verdict, std::to_string(value), "0 to 3, or 255");
  }
  void geometry(const RetentionGeometry& geometry) const {
    visit_geometry(geometry, [&]<typename T>(Dataset id, T value) {
      const T found = block_.value<T>(id);
      if (found != value) fail(id, number_text(found), number_text(value) + ", which follows from the policy");
    });
  }
  void density(const std::vector<float>& counted) const {
    const auto found = block_.values<float>(Dataset::density);
    for (std::size_t head = 0; head < counted.size(); ++head)
      if (std::isnan(found[head]) != std::isnan(counted[head]) || std::abs(found[head] - counted[head]) > kRounding)
        fail(Dataset::density, number_text(found[head]) + " of head " + std::to_string(head),
             number_text(counted[head]) + ", which follows from the lifetimes");
  }

 private:
  [[noreturn]] void fail(Dataset id, std::string found, std::string expected) const {
    malformed(file_, block_.run, schema(id).path, std::move(found), std::move(expected));
  }
  const RunBlock& block_;
  const std::string& file_;
};

}  // namespace

DerivedColumns derive(const RunRecord& run) {
  DerivedColumns derived{.geometry = derived_geometry(run)};
  derived.density = derived_density(run, derived.geometry);
  const std::size_t n_heads = derived.density.size();
  derived.recall = derived.mass_recall = derived.chance = derived.mass_kept = std::vector<float>(n_heads, kNaN);
  derived.verdicts.assign(run.ids.size() * n_heads, kNotJudged);
  if (!has_geometry(derived.geometry) || !has_lifetimes(run)) return derived;
  const Oracle oracle(run);
  const auto of = [&](Metric metric) { return head_metric(oracle, run, metric, run.queries() - 1).values; };
  derived.recall = of(Metric::recall);
  derived.mass_recall = of(Metric::mass_recall);
  derived.chance = of(Metric::chance);
  derived.mass_kept = of(Metric::mass_kept);
  derived.verdicts = verdict_column(run);
  return derived;
}

void encode_derived(RunBlock& block, const DerivedColumns& derived) {
  visit_geometry(derived.geometry, [&](Dataset id, auto value) { block.set(id, value); });
  block.set<float>(Dataset::density, derived.density);
  block.set<float>(Dataset::recall, derived.recall);
  block.set<float>(Dataset::mass_recall, derived.mass_recall);
  block.set<float>(Dataset::chance, derived.chance);
  block.set<float>(Dataset::mass_kept, derived.mass_kept);
  block.set<std::uint8_t>(Dataset::eviction_verdict, derived.verdicts);
}

void check_derived(const RunBlock& block, const RunRecord& run, const std::string& file) {
  const DerivedCheck check(block, file);
  for (const Dataset id : {Dataset::density, Dataset::recall, Dataset::chance, Dataset::mass_kept})
    check.in_range(id, 1 + kRounding);
  check.in_range(Dataset::mass_recall, std::numeric_limits<float>::max());
  check.verdicts();
  if (block.version < 3) return;  // they go by an oracle of another definition
  const RetentionGeometry geometry = derived_geometry(run);
  check.geometry(geometry);
  if (run.status == RunStatus::complete || run.status == RunStatus::cancelled)
    check.density(derived_density(run, geometry));
}

}  // namespace kvscope::trace
