#include "app/studies/train/training_curves.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "app/catalog/study_source.h"
#include "engine/core/study/table/gate_probe.h"
#include "engine/core/support/error.h"
#include "engine/core/support/version.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kTimesOfWrite = 20;  // between two of them: 5 % of the time at most

struct Known {
  std::string_view name, units, meaning;
};
constexpr std::array kKnown = {
    Known{"step", "", "optimizer steps done"},
    Known{"tokens", "", "tokens trained on up to this step"},
    Known{"learning_rate", "", "learning rate of the step"},
    Known{"tokens_per_s", "tokens/s", "since the row before"},
    Known{"seconds", "s", "of training, including those before a --resume"},
    Known{"loss_boundary", "", "KVpop eq. 7, mean since the row before"},
    Known{"token_accuracy", "", "share of held-out positions at which the student under eviction says the right token"},
    Known{"threshold", "", "from which a gate is open"},
    Known{"cache_size", "", "tokens held / tokens read with hard gates, window too, mean over heads and queries"},
    Known{"gate_mean", "", "mean of the gates in the step"},
    Known{"gate_open", "", "share of tokens whose gate keeps them, over all heads, in the step"},
};

/// What a loss is depends on the method, and goes without.
StudyColumn column_of(const std::string& name) {
  StudyColumn column{.name = name, .units = "", .meaning = ""};
  if (name.starts_with("open_")) column.meaning = "share of tokens that this head keeps";  // open_LAYER_HEAD
  const auto known = std::ranges::find(kKnown, name, &Known::name);
  if (known != kKnown.end()) column.units = known->units, column.meaning = known->meaning;
  return column;
}

[[noreturn]] void refuse_rows(const std::string& found) {
  throw Error({.code = ExitCode::resource, .file = "engine", .where = "curve", .found = found});
}

}  // namespace

TrainingCurves::~TrainingCurves() {
  try {
    write();
  } catch (const std::exception&) {
  }
}

fs::path TrainingCurves::file() const { return folder_ / (name_ + std::string(kCurveEnding)); }

void TrainingCurves::begin(const json& curve) {
  const auto name = curve.at("name").get<std::string>();
  // It becomes the name of a file.
  if (name.empty() || name.find('/') != std::string::npos) refuse_rows(in_quotes(name));
  write();
  const json facts = {
      {"program", std::string(version())}, {"git_revision", std::string(git_revision())}, {"curve", name}};
  name_ = name;
  table_ = {.kind = std::string(kTrainingStudy), .request = request_.dump(), .facts = facts.dump()};
  for (const json& column : curve.at("columns")) table_.columns.push_back(column_of(column.get<std::string>()));
  const auto rows = curve.at("rows").get<std::vector<std::vector<double>>>();
  if (rows.empty() || rows.back().empty() || table_.columns[0].name != "step") return;
  try {  // of a training that goes on
    keep_probes(table_, read_study("", file()), rows.back()[0]);
  } catch (const Error&) {  // no file, or another one: it is replaced
  }
}

void TrainingCurves::take_probe(const json& probe) {
  const double threshold =
      probe.at("threshold").is_null() ? std::numeric_limits<double>::quiet_NaN() : probe.at("threshold").get<double>();
  if (!probe.contains("scores")) return set_probe_threshold(table_, threshold);
  const auto shape = probe.at("shape").get<std::vector<int>>();
  if (shape.size() != 3) refuse_rows("scores without three axes");
  GateProbe taken{.step = probe.at("step").get<double>(),
                  .threshold = threshold,
                  .n_layers = shape[0],
                  .n_kv_heads = shape[1],
                  .tokens = probe.at("tokens").get<std::vector<std::int32_t>>()};
  const std::vector<std::uint8_t>& bytes = probe.at("scores").get_binary();
  const bool is_shape =
      shape[0] > 0 && shape[1] > 0 && shape[2] > 0 && shape[2] == static_cast<int>(taken.tokens.size());
  const double n_scores = is_shape ? double{1} * shape[0] * shape[1] * shape[2] : -1;
  const double all = n_scores * static_cast<double>(n_probes(table_) + 1);
  if (n_scores * sizeof(float) != static_cast<double>(bytes.size()) || all > static_cast<double>(kMostProbeScores))
    refuse_rows("a probe whose scores do not fit its shape");
  taken.scores.resize(bytes.size() / sizeof(float));
  std::memcpy(taken.scores.data(), bytes.data(), bytes.size());
  add_probe(table_, taken);
  json facts = json::parse(table_.facts);
  facts["probe"] = {{"pieces", probe.at("pieces")}};
  table_.facts = facts.dump(-1, ' ', false, json::error_handler_t::replace);
}

void TrainingCurves::take(const json& curve) try {
  if (curve.contains("probe")) {
    if (curve.at("name").get<std::string>() != name_) refuse_rows("a probe of a curve that has not begun");
    take_probe(curve.at("probe"));
    is_written_ = table_.n_points() == 0;
    if (Clock::now() >= write_at_) write();
    return;
  }
  const auto first = curve.at("first").get<std::size_t>();
  if (curve.at("name").get<std::string>() != name_) begin(curve);
  if (first > table_.n_points()) refuse_rows("rows that begin after the last one");
  for (StudyColumn& column : table_.columns) column.numbers.resize(first);
  for (const auto& row : curve.at("rows").get<std::vector<std::vector<double>>>()) {
    if (row.size() != table_.columns.size()) refuse_rows(std::to_string(row.size()) + " numbers in a row");
    for (std::size_t i = 0; i < row.size(); ++i) table_.columns[i].numbers.push_back(row[i]);
  }
  is_written_ = table_.n_points() == 0;
  if (Clock::now() >= write_at_) write();
} catch (const json::exception&) {
  refuse_rows("fields of other types");
}

void TrainingCurves::write() {
  if (std::exchange(is_written_, true)) return;
  const Clock::time_point start = Clock::now();
  std::error_code error;                                // of what is in the way, the next line says more
  std::filesystem::create_directories(folder_, error);  // the engine may be on another machine
  write_study(file(), table_, true);
  write_at_ = Clock::now() + kTimesOfWrite * (Clock::now() - start);
}

}  // namespace kvscope::app
