#include "engine/core/trace/export_netcdf.h"

#include <algorithm>
#include <limits>

#include "engine/core/policy/policy.h"
#include "engine/core/record/asked_json.h"
#include "engine/core/record/command_line.h"
#include "engine/core/record/run_fields.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/table/series_array.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/trace/netcdf_file.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope {
namespace {

using trace::NetcdfFile;
using Dimensions = std::vector<std::string>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr char kText[] = "token_text";

void add_facts(NetcdfFile& file, const RunRecord& run) {
  const auto text = [&](const char* name, std::string_view value) { file.attribute(name, value); };
  const auto number = [&](const char* name, std::int64_t value) { file.attribute(name, value); };
  text("Conventions", "CF-1.8");
  text("title", "Lifetimes in the KV cache, one run");
  text("source", "KVScope");
  text("model", run.model.name);
  text("architecture", run.model.architecture);
  text("dtype", run.model.dtype);
  text("device", run.model.device);
  text("weights_hash", run.model.weights_hash);
  number("n_heads", run.model.n_heads);
  number("head_dim", run.model.head_dim);
  text("policy", run.policy.to_string());
  text("policy_title", policy_of(run.policy).info.title);
  text("recorder", run.recorder);
  text("scorer", run.scorer.text);
  text("scorer_kind", run.scorer.kind);
  number("prompt_len", run.prompt_len);
  visit_fields(static_cast<const RunHead&>(run), [&](const char* name, int value, FieldRange) { number(name, value); });
  number("n_queries", run.queries());
  number("window", run.geometry().window);
  number("n_sink", run.geometry().n_sink);
  number("oracle_horizon", run.oracle_horizon);
  file.attribute("temperature", run.sampling.temperature);
  number("seed", static_cast<std::int64_t>(run.sampling.seed));
  number("prompt_index", run.prompt_index);
  text("status", to_string(run.status));
  text("message", run.message);
  text("started_utc", run.started_utc);
  text("command_line", command_line(run));
  text("asked", asked_text(run));
  file.attribute("prefill_s", run.timings.prefill_s);
  file.attribute("decode_s", run.timings.decode_s);
  number("decode_steps", run.timings.decode_steps);
}

struct Words {
  const char *name, *long_name, *units = "1";
};

/// Over layer, KV head and `along`; nothing for a series that the run has not.
void add_series(NetcdfFile& file, const Words& words, const HeadSeries<float>& series, const char* along = "token") {
  if (series.empty()) return;
  const std::vector<float> values = series_array(series, file.length(along), kNaN);
  file.add({.name = words.name,
            .dimensions = {"layer", "kv_head", along},
            .long_name = words.long_name,
            .units = words.units,
            .coordinates = std::string(along) == "token" ? kText : ""},
           std::span<const float>(values));
}

void add_lifetimes(NetcdfFile& file, const RunRecord& run) {
  const Dimensions dimensions = {"layer", "kv_head", "token"};
  const std::vector<std::int32_t> evict_at = series_array(run.evict_at, run.n_tokens(), kUndecided);
  file.add({.name = "evict_at",
            .dimensions = dimensions,
            .long_name = "first query position that no longer sees the token",
            .flags = {{kUndecided, "in_the_window_when_the_run_ended"}, {kNever, "never_evicted"}},
            .coordinates = kText},
           std::span<const std::int32_t>(evict_at));
  std::vector<std::uint8_t> verdicts;
  for (const auto& head : eviction_verdicts(run)) {
    for (const VerdictOfEviction& found : head) verdicts.push_back(verdict_code(found));
  }
  if (verdicts.empty()) return;
  file.add(
      {.name = "eviction_verdict",
       .dimensions = dimensions,
       .long_name = "whether the oracle would have evicted the token too",
       .flags =
           {{0, "right"}, {1, "wrong"}, {2, "right_by_25_percent"}, {3, "wrong_by_25_percent"}, {255, "not_judged"}},
       .coordinates = kText},
      std::span<const std::uint8_t>(verdicts));
}

void add_scores(NetcdfFile& file, const RunRecord& run) {
  add_series(file, {"score", "raw score of the token, higher is kept"}, run.scores);
  add_series(file, {"future_mass", "mean attention from later queries, dense teacher"}, run.future_mass);
  visit_future(run.future, [&](const char* name, const HeadSeries<float>& series) {
    add_series(file, {name, "what the oracle can use besides the mean mass", ""}, series);
  });
}

void add_tokens(NetcdfFile& file, const RunRecord& run) {
  const auto n = static_cast<std::size_t>(run.n_tokens());
  std::vector<std::string> pieces(n);
  for (std::size_t i = 0; i < std::min(n, run.pieces.size()); ++i) pieces[i] = run.pieces[i];
  file.add({.name = kText, .dimensions = {"token"}, .long_name = "the token as text"}, pieces);
  file.add({.name = "token_id", .dimensions = {"token"}, .long_name = "number in the vocabulary"},
           std::span<const std::int32_t>(run.ids));
  std::vector<float> logprobs(run.logprobs);
  logprobs.resize(n, kNaN);
  file.add({.name = "token_logprob",
            .dimensions = {"token"},
            .long_name = "natural logarithm of the token's probability given those before it"},
           std::span<const float>(logprobs));
}

void add_contests(NetcdfFile& file, const std::vector<Contest>& contests) {
  if (contests.empty()) return;
  file.dimension("contest", std::ssize(contests), "a token left the window and met the budget's boundary");
  const auto column = [&]<typename T>(const char* name, const char* meaning, T Contest::*, auto get) {
    using Stored = std::conditional_t<std::is_same_v<T, float>, float, std::int32_t>;
    std::vector<Stored> values;
    for (const Contest& contest : contests) values.push_back(static_cast<Stored>(get(contest)));
    file.add({.name = std::string("contest_") + name, .dimensions = {"contest"}, .long_name = meaning},
             std::span<const Stored>(values));
  };
  const auto add = [&](const char* name, const char* meaning, auto Contest::*member) {
    column(name, meaning, member, [member](const Contest& contest) { return contest.*member; });
  };
  add("q", "query position", &Contest::q);
  add("layer", "layer", &Contest::layer);
  add("kv_head", "KV head", &Contest::kv_head);
  add("newcomer", "token that left the window", &Contest::newcomer);
  add("boundary", "kept token with the lowest score", &Contest::boundary);
  add("newcomer_effective", "its score with decay", &Contest::newcomer_effective);
  add("boundary_effective", "its score with decay", &Contest::boundary_effective);
  add("evicted", "token that was evicted", &Contest::evicted);
}

void add_output_error(NetcdfFile& file, const RunRecord& run) {
  const OutputError& error = run.output_error;
  if (error.empty() || error.n_queries() == 0) return;
  file.dimension("query", error.n_queries(), "query position");
  add_series(file, {"group_damage", "norm of what eviction did to the head's part of the output", ""},
             error.group_damage, "query");
  add_series(file, {"read_mass", "share of the attention on the pages that were read"}, error.read_mass, "query");
  add_series(file, {"best_read_mass", "the same for the best choice of as many pages"}, error.best_read_mass, "query");
  const auto of_layers = [&](const char* name, const char* meaning, const HeadSeries<float>& series) {
    const std::vector<float> values = series_array(series, error.n_queries(), kNaN);
    file.add({.name = name, .dimensions = {"layer", "query"}, .long_name = meaning}, std::span<const float>(values));
  };
  of_layers("layer_damage", "norm of what eviction did to the layer's output", error.layer_damage);
  of_layers("layer_output", "norm of the layer's whole output", error.layer_output);
}

/// Its own, or mean_read_mass and mean_best_read_mass, whose series have theirs.
std::string metric_array_name(const MetricInfo& info) {
  const bool is_series = info.metric == Metric::read_mass || info.metric == Metric::best_read_mass;
  return (is_series ? "mean_" : "") + std::string(info.name);
}

void add_metrics(NetcdfFile& file, const RunRecord& run) {
  for (const MetricInfo& info : metric_list()) {
    const std::vector<float> values = head_metric(run, info.metric, run.queries() - 1).values;
    file.add({.name = metric_array_name(info),
              .dimensions = {"layer", "kv_head"},
              .long_name = std::string(info.definition),
              .units = "1"},
             std::span<const float>(values));
  }
}

void write_whole(const std::filesystem::path& path, bool replace, auto&& fill) {
  writable_target(path, replace);
  hdf5_start();
  std::string bytes;
  try {
    NetcdfFile file;
    fill(file);
    bytes = file.bytes();
  } catch (const trace::H5Error& error) {
    throw error.of_file(path.string(), "");
  }
  AtomicFile file(path, replace);
  file.write(bytes);
  file.commit();
}

}  // namespace

void export_netcdf(const RunRecord& run, const std::set<ExportPart>& parts, const std::filesystem::path& path,
                   bool replace) {
  if (run.n_tokens() == 0 || run.model.n_layers == 0 || run.model.n_kv_heads == 0)
    throw Error({.file = path.string(), .found = "a run without tokens", .expected = "something to write"});
  write_whole(path, replace, [&](NetcdfFile& file) {
    add_facts(file, run);
    file.dimension("layer", run.model.n_layers, "layer");
    file.dimension("kv_head", run.model.n_kv_heads, "KV head");
    file.dimension("token", run.n_tokens(), "position of the token");
    add_tokens(file, run);  // always: lifetimes without their tokens say little
    if (parts.contains(ExportPart::lifetimes)) add_lifetimes(file, run);
    if (parts.contains(ExportPart::scores)) add_scores(file, run);
    if (parts.contains(ExportPart::contests)) add_contests(file, run.contests);
    if (parts.contains(ExportPart::output_error)) add_output_error(file, run);
    if (parts.contains(ExportPart::metrics)) add_metrics(file, run);
  });
}

void export_netcdf(const StudyTable& study, const std::filesystem::path& path, bool replace) {
  if (study.n_points() == 0)
    throw Error({.file = path.string(), .found = "a study without points", .expected = "something to write"});
  write_whole(path, replace, [&](NetcdfFile& file) {
    file.attribute("title", "A study of KV-cache policies");
    file.attribute("source", "KVScope");
    file.attribute("kind", study.kind);
    file.attribute("request", study.request);
    file.attribute("facts", study.facts);
    file.dimension("point", static_cast<std::int64_t>(study.n_points()), "point of the study");
    for (const StudyColumn& column : study.columns) {
      const NetcdfFile::Variable variable = {
          .name = column.name, .dimensions = {"point"}, .long_name = column.meaning, .units = column.units};
      column.is_text ? file.add(variable, column.texts) : file.add(variable, std::span<const double>(column.numbers));
    }
    std::set<std::string> made = {"point"};
    for (const StudyArray& array : study.arrays) {
      for (std::size_t i = 0; i < array.axes.size(); ++i)
        if (made.insert(array.axes[i]).second) file.dimension(array.axes[i], array.shape[i], array.axes[i]);
      file.add({.name = array.name, .dimensions = array.axes, .long_name = array.meaning, .units = array.units},
               std::span<const double>(array.values));
    }
  });
}

}  // namespace kvscope
