#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/table/export_run.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/plain_text.h"

namespace kvscope {
namespace {

constexpr std::size_t kBlock = 1 << 20;  // bytes that are written at a time

/// Cells to a file, in order.
class CsvFile {
 public:
  CsvFile(const std::filesystem::path& path, bool replace) : file_(path, replace) {}

  void cell(std::string_view text) {
    if (!at_line_start_) line_ += ',';
    at_line_start_ = false;
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
      line_ += text;
      return;
    }
    line_ += '"';
    for (const char c : text) line_.append(c == '"' ? 2 : 1, c);
    line_ += '"';
  }
  void cell(std::int64_t value) { number(value); }
  /// Shortest text that reads back as the same float.
  void cell(float value) { std::isnan(value) ? cell(std::string_view()) : number(value); }
  void end_line() {
    line_ += '\n';
    at_line_start_ = true;
    if (line_.size() < kBlock) return;
    file_.write(line_);
    line_.clear();
  }
  void finish() {
    file_.write(line_);
    file_.commit();
  }

 private:
  void number(auto value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    cell(std::string_view(text, static_cast<std::size_t>(end - text)));
  }

  AtomicFile file_;
  std::string line_;
  bool at_line_start_ = true;
};

/// The cell of a series, empty where it has none.
template <typename T>
void series_cell(CsvFile& csv, const HeadSeries<T>& series, int layer, int head, int token) {
  const bool there = !series.empty() && static_cast<std::size_t>(token) < series.row(layer, head).size();
  if (!there) return csv.cell(std::string_view());
  if constexpr (std::is_same_v<T, float>) {
    csv.cell(series.row(layer, head)[token]);
  } else {
    csv.cell(static_cast<std::int64_t>(series.row(layer, head)[token]));
  }
}

std::string_view verdict_name(const std::vector<std::vector<VerdictOfEviction>>& verdicts, int head, int token) {
  if (verdicts.empty()) return {};
  const VerdictOfEviction found = verdicts[static_cast<std::size_t>(head)][static_cast<std::size_t>(token)];
  if (found.verdict == EvictionVerdict::unknown) return {};
  if (found.by_quarter) return found.verdict == EvictionVerdict::wrong ? "wrong by 25 %" : "right by 25 %";
  return found.verdict == EvictionVerdict::wrong ? "wrong" : "right";
}

std::string text_of(const RunRecord& run, int token) {
  const auto i = static_cast<std::size_t>(token);
  return i < run.pieces.size() ? plain_text(run.pieces[i]) : std::string();
}

void write_series(CsvFile& csv, const RunRecord& run, bool lifetimes, bool scores, bool texts) {
  for (const char* name : {"layer", "kv_head", "token"}) csv.cell(name);
  if (texts) csv.cell("text");
  if (lifetimes) csv.cell("evict_at");
  if (scores) csv.cell("score"), csv.cell("future_mass");
  if (lifetimes) csv.cell("eviction_verdict");
  csv.end_line();
  const std::vector<std::vector<VerdictOfEviction>> verdicts =
      lifetimes ? eviction_verdicts(run) : decltype(verdicts)();
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      for (int token = 0; token < run.n_tokens(); ++token) {
        for (const std::int64_t value : {layer, head, token}) csv.cell(value);
        if (texts) csv.cell(text_of(run, token));
        if (lifetimes) series_cell(csv, run.evict_at, layer, head, token);
        if (scores) series_cell(csv, run.scores, layer, head, token);
        if (scores) series_cell(csv, run.future_mass, layer, head, token);
        if (lifetimes) csv.cell(verdict_name(verdicts, layer * run.model.n_kv_heads + head, token));
        csv.end_line();
      }
    }
  }
}

void write_contests(CsvFile& csv, const RunRecord& run) {
  for (const char* name :
       {"q", "layer", "kv_head", "newcomer", "boundary", "newcomer_effective", "boundary_effective", "evicted"})
    csv.cell(name);
  csv.end_line();
  for (const Contest& contest : run.contests) {
    for (const std::int64_t value : {contest.q, static_cast<std::int32_t>(contest.layer),
                                     static_cast<std::int32_t>(contest.kv_head), contest.newcomer, contest.boundary})
      csv.cell(value);
    csv.cell(contest.newcomer_effective);
    csv.cell(contest.boundary_effective);
    csv.cell(static_cast<std::int64_t>(contest.evicted));
    csv.end_line();
  }
}

void write_tokens(CsvFile& csv, const RunRecord& run) {
  for (const char* name : {"token", "id", "logprob", "piece"}) csv.cell(name);
  csv.end_line();
  for (int token = 0; token < run.n_tokens(); ++token) {
    const auto i = static_cast<std::size_t>(token);
    csv.cell(static_cast<std::int64_t>(token));
    csv.cell(static_cast<std::int64_t>(run.ids[i]));
    csv.cell(i < run.logprobs.size() ? run.logprobs[i] : std::nanf(""));
    csv.cell(text_of(run, token));
    csv.end_line();
  }
}

void write_metrics(CsvFile& csv, const RunRecord& run) {
  std::vector<HeadMap> maps;
  for (const char* name : {"layer", "kv_head"}) csv.cell(name);
  for (const MetricInfo& info : metric_list()) {
    csv.cell(info.name);
    maps.push_back(head_metric(run, info.metric, run.queries() - 1));
  }
  csv.end_line();
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      csv.cell(static_cast<std::int64_t>(layer)), csv.cell(static_cast<std::int64_t>(head));
      for (const HeadMap& map : maps) csv.cell(map.at(layer, head));
      csv.end_line();
    }
  }
}

void write_output_error(CsvFile& csv, const RunRecord& run) {
  for (const char* name :
       {"layer", "kv_head", "query", "group_damage", "layer_damage", "layer_output", "read_mass", "best_read_mass"})
    csv.cell(name);
  csv.end_line();
  const OutputError& error = run.output_error;
  for (int layer = 0; layer < error.group_damage.n_layers(); ++layer) {
    for (int head = 0; head < error.group_damage.n_kv_heads(); ++head) {
      for (int query = 0; query < error.n_queries(); ++query) {
        for (const std::int64_t value : {layer, head, query}) csv.cell(value);
        csv.cell(error.group_damage.row(layer, head)[query]);
        csv.cell(error.layer_damage.row(layer, 0)[query]);
        csv.cell(error.layer_output.row(layer, 0)[query]);
        csv.cell(error.read_mass.row(layer, head)[query]);
        csv.cell(error.best_read_mass.row(layer, head)[query]);
        csv.end_line();
      }
    }
  }
}

constexpr std::pair<std::string_view, ExportPart> kNames[] = {
    {"lifetimes", ExportPart::lifetimes}, {"scores", ExportPart::scores},   {"contests", ExportPart::contests},
    {"tokens", ExportPart::tokens},       {"metrics", ExportPart::metrics}, {"output_error", ExportPart::output_error}};

}  // namespace

std::set<ExportPart> parse_export_parts(const std::string& names) {
  std::set<ExportPart> parts;
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    const std::string_view name = std::string_view(names).substr(at, end - at);
    const auto* found = std::find_if(std::begin(kNames), std::end(kNames), [&](auto& n) { return n.first == name; });
    if (found == std::end(kNames))
      throw Error(
          {.code = ExitCode::usage,
           .file = "--what",
           .found = in_quotes(name),
           .expected = "lifetimes, scores, contests, tokens, metrics, output_error, or several separated by commas"});
    parts.insert(found->second);
    at = end + 1;
  }
  return parts;
}

void export_csv(const RunRecord& run, const std::set<ExportPart>& parts, const std::filesystem::path& path,
                bool replace) {
  const bool lifetimes = parts.contains(ExportPart::lifetimes), scores = parts.contains(ExportPart::scores);
  const bool tokens = parts.contains(ExportPart::tokens), series = lifetimes || scores;
  const bool one_table = parts.size() == 1 || (series && parts.size() == std::size_t{lifetimes} + scores + tokens);
  if (!one_table)
    throw Error({.code = ExitCode::usage,
                 .file = "--what",
                 .found = std::to_string(parts.size()) + " tables for one .csv",
                 .expected = "lifetimes, scores and tokens, or one of contests, tokens, metrics, output_error",
                 .hint = "an .nc file can hold them all"});
  CsvFile csv(path, replace);
  if (series) {
    write_series(csv, run, lifetimes, scores, tokens);
  } else if (parts.contains(ExportPart::contests)) {
    write_contests(csv, run);
  } else if (parts.contains(ExportPart::tokens)) {
    write_tokens(csv, run);
  } else if (parts.contains(ExportPart::output_error)) {
    write_output_error(csv, run);
  } else {
    write_metrics(csv, run);
  }
  csv.finish();
}

}  // namespace kvscope
