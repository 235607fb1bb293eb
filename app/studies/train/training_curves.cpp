#include "app/studies/train/training_curves.h"

#include <algorithm>
#include <array>
#include <utility>

#include "app/catalog/study_source.h"
#include "engine/core/support/error.h"
#include "engine/core/support/version.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

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

void TrainingCurves::take(const json& curve) try {
  const auto name = curve.at("name").get<std::string>();
  const auto first = curve.at("first").get<std::size_t>();
  // It becomes the name of a file.
  if (name.empty() || name.find('/') != std::string::npos) refuse_rows(in_quotes(name));
  if (name != name_) {
    write();
    const json facts = {
        {"program", std::string(version())}, {"git_revision", std::string(git_revision())}, {"curve", name}};
    name_ = name;
    table_ = {.kind = std::string(kTrainingStudy), .request = request_.dump(), .facts = facts.dump()};
    for (const json& column : curve.at("columns")) table_.columns.push_back(column_of(column.get<std::string>()));
  }
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
  write_study(folder_ / (name_ + std::string(kCurveEnding)), table_, true);
  write_at_ = Clock::now() + kTimesOfWrite * (Clock::now() - start);
}

}  // namespace kvscope::app
