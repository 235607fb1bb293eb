#include <algorithm>
#include <array>
#include <limits>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/table/export_run.h"
#include "engine/core/study/table/npz.h"
#include "engine/core/study/table/series_array.h"
#include "engine/core/support/file.h"

namespace kvscope {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename T>
void add_series(NpzWriter& npz, const std::string& name, const HeadSeries<T>& series, const RunRecord& run, T padding) {
  if (series.empty()) return;
  const std::array<std::int64_t, 3> shape = {series.n_layers(), series.n_kv_heads(), run.n_tokens()};
  const std::vector<T> values = series_array(series, run.n_tokens(), padding);
  npz.add(name, shape, std::span<const T>(values));
}

template <typename T>
void add_column(NpzWriter& npz, const std::string& name, const std::vector<T>& values) {
  const std::int64_t n = std::ssize(values);
  npz.add(name, std::span(&n, 1), std::span<const T>(values));
}

/// 0 right, 1 wrong, 255 not judged; 2 and 3 by an oracle of a quarter of the run.
void add_verdicts(NpzWriter& npz, const RunRecord& run) {
  std::vector<std::int32_t> values;
  for (const auto& head : eviction_verdicts(run)) {
    for (const VerdictOfEviction& found : head) values.push_back(verdict_code(found));
  }
  if (values.empty()) return;
  const std::array<std::int64_t, 3> shape = {run.model.n_layers, run.model.n_kv_heads, run.n_tokens()};
  npz.add("eviction_verdict", shape, std::span<const std::int32_t>(values));
}

void add_contests(NpzWriter& npz, const std::vector<Contest>& contests) {
  const auto column = [&]<typename T>(const char* name, auto Contest::*member, T) {
    std::vector<T> values;
    values.reserve(contests.size());
    for (const Contest& contest : contests) values.push_back(contest.*member);
    add_column(npz, std::string("contest_") + name, values);
  };
  column("q", &Contest::q, std::int32_t{});
  column("layer", &Contest::layer, std::int32_t{});
  column("kv_head", &Contest::kv_head, std::int32_t{});
  column("newcomer", &Contest::newcomer, std::int32_t{});
  column("boundary", &Contest::boundary, std::int32_t{});
  column("newcomer_effective", &Contest::newcomer_effective, float{});
  column("boundary_effective", &Contest::boundary_effective, float{});
  column("evicted", &Contest::evicted, std::int32_t{});
}

void add_output_error(NpzWriter& npz, const RunRecord& run) {
  if (run.output_error.empty()) return;
  add_series(npz, "group_damage", run.output_error.group_damage, run, kNaN);
  add_series(npz, "read_mass", run.output_error.read_mass, run, kNaN);
  add_series(npz, "best_read_mass", run.output_error.best_read_mass, run, kNaN);
  const auto of_layers = [&](const char* name, const HeadSeries<float>& series) {
    const std::array<std::int64_t, 2> shape = {series.n_layers(), run.n_tokens()};
    std::vector<float> values;
    for (int layer = 0; layer < series.n_layers(); ++layer) {
      values.insert(values.end(), series.row(layer, 0).begin(), series.row(layer, 0).end());
      values.resize(static_cast<std::size_t>(layer + 1) * run.n_tokens(), kNaN);
    }
    npz.add(name, shape, std::span<const float>(values));
  };
  of_layers("layer_damage", run.output_error.layer_damage);
  of_layers("layer_output", run.output_error.layer_output);
}

void add_tokens(NpzWriter& npz, const RunRecord& run) {
  add_column(npz, "token_id", run.ids);
  std::vector<float> logprobs(run.logprobs);
  logprobs.resize(run.ids.size(), kNaN);
  add_column(npz, "token_logprob", logprobs);
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < run.ids.size(); ++i)
    pieces.emplace_back(i < run.pieces.size() ? run.pieces[i] : std::string_view());
  npz.add("token_piece", pieces);
}

}  // namespace

std::string metric_array_name(const MetricInfo& info) {
  const bool is_series = info.metric == Metric::read_mass || info.metric == Metric::best_read_mass;
  return (is_series ? "mean_" : "") + std::string(info.name);
}

void export_npz(const RunRecord& run, const std::set<ExportPart>& parts, const std::filesystem::path& path,
                bool replace) {
  AtomicFile file(path, replace);
  NpzWriter npz([&](std::string_view bytes) { file.write(bytes); });
  const std::vector<std::string> policy = {run.policy.to_string()}, model = {run.model.name};
  npz.add("policy", policy);
  npz.add("model", model);
  add_column(npz, "prompt_len", std::vector<std::int32_t>{run.prompt_len});
  if (parts.contains(ExportPart::lifetimes)) {
    add_series(npz, "evict_at", run.evict_at, run, kUndecided);
    add_verdicts(npz, run);
  }
  if (parts.contains(ExportPart::scores)) {
    add_series(npz, "score", run.scores, run, kNaN);
    add_series(npz, "future_mass", run.future_mass, run, kNaN);
    visit_future(run.future, [&](const char* name, const auto& series) { add_series(npz, name, series, run, kNaN); });
  }
  if (parts.contains(ExportPart::contests)) add_contests(npz, run.contests);
  if (parts.contains(ExportPart::tokens)) add_tokens(npz, run);
  if (parts.contains(ExportPart::output_error)) add_output_error(npz, run);
  if (parts.contains(ExportPart::metrics)) {
    const std::array<std::int64_t, 2> shape = {run.model.n_layers, run.model.n_kv_heads};
    for (const MetricInfo& info : metric_list())
      npz.add(metric_array_name(info), shape, head_metric(run, info.metric, run.queries() - 1).values);
  }
  npz.finish();
  file.commit();
}

}  // namespace kvscope
