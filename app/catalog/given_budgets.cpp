#include "app/catalog/given_budgets.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "engine/core/policy/allocation.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxBytes = 1 << 22;

bool is_hdf5(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return false;
  std::string start(8, '\0');
  std::ifstream(path, std::ios::binary).read(start.data(), 8);
  return start == "\x89HDF\r\n\x1a\n";
}

/// The row of the table: the one called `label`, or the only one with budgets.
std::size_t row_of(const StudyTable& study, const std::string& file, const std::string& label) {
  const std::vector<std::string>& labels = study.texts("point", file);
  const std::vector<std::string>& strategies = study.texts("strategy", file);
  std::string names;
  std::size_t row = labels.size(), n = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (strategies[i] != "budgets") continue;
    names += (n++ == 0 ? "" : ", ") + labels[i];
    if (label.empty() || labels[i] == label) row = i;
  }
  if (row == labels.size() || (label.empty() && n > 1))
    throw Error({.code = ExitCode::usage,
                 .file = file,
                 .found = label.empty() ? std::to_string(n) + " points with budgets" : "no point " + label,
                 .expected = file + "#POINT, with a point of " + names});
  return row;
}

int places_of(const PolicySpec& policy, int& fixed) {
  if (!takes_budgets(policy) || !policy.budget || policy.budget->kind != BudgetSpec::Kind::tokens)
    throw Error({.code = ExitCode::usage,
                 .file = "budgets of a study",
                 .found = policy.to_string(),
                 .expected = "a policy with one budget per head in tokens, such as kvpop:budget=256",
                 .hint = "the study has each head's share of it"});
  const RetentionGeometry geometry = policy.geometry(1 << 20);
  fixed = geometry.n_sink + geometry.window;
  return geometry.top_k;
}

std::string text_of(std::span<const double> shares, std::size_t n_heads, const PolicySpec& policy,
                    const std::string& file) {
  int fixed = 0;
  const int places = places_of(policy, fixed);
  for (const double share : shares)
    if (share < 0 || std::isinf(share))
      throw Error({.file = file, .where = "budget", .found = number_text(share), .expected = "shares of at least 0"});
  if (static_cast<std::int64_t>(places) * static_cast<std::int64_t>(shares.size()) > INT32_MAX)
    throw Error({.code = ExitCode::usage,
                 .file = "budgets of a study",
                 .found = policy.to_string(),
                 .expected = "a budget of at most 2147483647 tokens over all heads"});
  std::vector<double> known;  // layers that are local by the model's design have no share
  for (const double share : shares)
    if (!std::isnan(share)) known.push_back(share);
  const std::vector<int> divided = places_by_share(known, places * static_cast<int>(known.size()));
  std::string text;
  std::size_t next = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    text += std::to_string(fixed + (std::isnan(shares[i]) ? places : divided[next++]));
    text += (i + 1) % n_heads == 0 ? "\n" : " ";
  }
  return text;
}

}  // namespace

std::string given_budgets(const std::string& source, const PolicySpec& policy, const std::string& program) {
  std::string file = source, label;
  const std::size_t mark = source.rfind('#');
  if (mark != std::string::npos && !std::filesystem::exists(source)) file.resize(mark), label = source.substr(mark + 1);
  if (!is_hdf5(file)) return read_text_file(source, kMaxBytes);
  const std::optional<StudyTable> study = read_study_if_one(program, file);
  const StudyArray* budgets = study ? study->array("budget") : nullptr;
  if (!budgets || budgets->axes != std::vector<std::string>{"point", "layer", "kv_head"})
    throw Error({.file = file,
                 .found = study ? "a study without budgets of heads" : "no study",
                 .expected = "a hybrid study with --strategies budgets, or a file of numbers"});
  const std::size_t row = row_of(*study, file, label), n_heads = static_cast<std::size_t>(budgets->shape[2]),
                    n = static_cast<std::size_t>(budgets->shape[1]) * n_heads;
  if ((row + 1) * n > budgets->values.size())
    throw Error({.file = file, .where = "budget", .found = "fewer points than the table", .expected = "all of them"});
  return text_of(std::span(budgets->values).subspan(row * n, n), n_heads, policy, file);
}

}  // namespace kvscope::app
