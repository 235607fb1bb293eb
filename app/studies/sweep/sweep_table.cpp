#include "app/studies/sweep/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/studies/sweep/sweep_derived.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/study/heads/head_signal.h"
#include "engine/core/study/measure/student_t.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_fields.h"
#include "engine/core/support/version.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

/// A line of the table before it is one.
struct Row {
  const SweepGroup* group;
  const SweepPoint* point;  // nullptr: the dense policy
  EvalRow facts;
  std::vector<EvalAnswer> answers;
};

/// The answers of a group and of the dense policy that they are compared with.
std::vector<EvalAnswer> answers_of(const SweepPlan& plan, const SweepJournal& journal, const SweepGroup& group) {
  std::vector<EvalAnswer> answers;
  for (const SweepGroup& other : plan.groups) {
    if (other.base() != group.base() || !(other.asks_dense || &other == &group)) continue;
    for (const std::string& key : sweep_keys(plan, other)) {
      const EvalAnswer* answer = journal.find(other, key);
      if (answer != nullptr && (answer->is_dense || &other == &group)) answers.push_back(*answer);
    }
  }
  return answers;
}

Row row_of(const SweepGroup& group, const SweepPoint* point, const std::string& item,
           const std::vector<EvalAnswer>& answers, const std::vector<EvalRow>& rows) {
  const std::string policy = point ? point->policy : kDensePolicy;
  Row row{.group = &group, .point = point, .facts = {.item = item, .policy = policy}, .answers = {}};
  for (const EvalRow& known : rows) {
    if (known.item == item && known.policy == policy) row.facts = known;
  }
  for (const EvalAnswer& answer : answers) {
    if (answer.item == item && answer.policy == policy) row.answers.push_back(answer);
  }
  return row;
}

/// By base and item, the dense policy first, then the points of all gates in the recipe's order.
std::vector<Row> rows_of(const SweepPlan& plan, const SweepJournal& journal) {
  std::vector<Row> rows;
  for (const SweepGroup& first : plan.groups) {
    if (!first.asks_dense) continue;
    std::map<const SweepGroup*, std::pair<std::vector<EvalAnswer>, std::vector<EvalRow>>> known;
    for (const SweepGroup& group : plan.groups) {
      if (group.base() != first.base()) continue;
      auto& [answers, summary] = known[&group];
      answers = answers_of(plan, journal, group);
      summary = summarise(answers);
    }
    for (const std::string& item : plan.items(first)) {
      rows.push_back(row_of(first, nullptr, item, known[&first].first, known[&first].second));
      for (std::size_t i = 0; i < plan.points.size(); ++i) {
        for (const auto& [group, answers] : known) {
          if (std::ranges::find(group->points, i) == group->points.end()) continue;
          rows.push_back(row_of(*group, &plan.points[i], item, answers.first, answers.second));
        }
      }
    }
  }
  return rows;
}

double number_of(const EvalRow& facts, double value) { return facts.n > 0 ? value : kNotMeasured; }

/// Of the mean NLL over pieces, which differ by far more than by the policy.
double standard_error(const Row& row) {
  if (!row.group->is_texts || row.answers.size() < 2) return kNotMeasured;
  double sum = 0, squares = 0;
  const auto n = static_cast<double>(row.answers.size());
  for (const EvalAnswer& answer : row.answers) sum += answer.nll;
  for (const EvalAnswer& answer : row.answers) squares += std::pow(answer.nll - sum / n, 2);
  return std::sqrt(squares / (n - 1) / n);
}

/// Builds columns from rows.
class Columns {
 public:
  Columns(StudyTable& table, const std::vector<Row>& rows) : table_(table), rows_(rows) {}

  template <typename Value>
  void texts(std::string name, std::string meaning, Value value) {
    StudyColumn column{.name = std::move(name), .units = "", .meaning = std::move(meaning), .is_text = true};
    for (const Row& row : rows_) column.texts.push_back(value(row));
    table_.columns.push_back(std::move(column));
  }
  template <typename Value>
  void numbers(std::string name, std::string units, std::string meaning, Value value) {
    StudyColumn column{.name = std::move(name), .units = std::move(units), .meaning = std::move(meaning)};
    for (const Row& row : rows_) column.numbers.push_back(value(row));
    table_.columns.push_back(std::move(column));
  }
  void facts(std::string name, std::string units, std::string meaning, double EvalRow::*member) {
    numbers(std::move(name), std::move(units), std::move(meaning),
            [member](const Row& row) { return number_of(row.facts, row.facts.*member); });
  }
  /// x_se, x_low and x_high of a mean over pieces.
  template <typename Mean, typename Error>
  void spread(const std::string& name, Mean mean, Error error) {
    const auto half = [error](const Row& row) { return student_t_975(row.facts.n - 1) * error(row); };
    numbers(name + "_se", "nats/token", "standard error of " + name + " over pieces", error);
    numbers(name + "_low", "nats/token", "lower end of its 95 % interval (Student's t)",
            [=](const Row& row) { return mean(row) - half(row); });
    numbers(name + "_high", "nats/token", "upper end", [=](const Row& row) { return mean(row) + half(row); });
  }

 private:
  StudyTable& table_;
  const std::vector<Row>& rows_;
};

/// "25%" as 0.25; NaN for what is no number.
double number_in(const std::string& text) {
  std::size_t end = 0;
  try {
    const double number = std::stod(text, &end);
    if (end == text.size()) return number;
    if (end + 1 == text.size() && text[end] == '%') return number / 100;
  } catch (const std::exception&) {
  }
  return kNotMeasured;
}

/// "axis_keep": numbers if all its values are.
void add_axis(Columns& columns, const SweepPlan& plan, const std::string& axis) {
  std::string name = "axis_" + axis;
  std::ranges::replace(name, '-', '_');
  const auto text = [&axis](const Row& row) {
    if (row.point == nullptr) return std::string();
    const auto value = row.point->axes.find(axis);
    return value == row.point->axes.end() ? std::string() : value->second;
  };
  const bool are_numbers = std::ranges::all_of(plan.points, [&](const SweepPoint& point) {
    const auto value = point.axes.find(axis);
    return value == point.axes.end() || !std::isnan(number_in(value->second));
  });
  const std::string meaning = "the recipe's axis " + axis;
  if (!are_numbers) return columns.texts(name, meaning, text);
  columns.numbers(name, "", meaning + "; a percentage is given as a share",
                  [&](const Row& row) { return number_in(text(row)); });
}

std::string asked_text(const Row& row) {
  const SweepGroup& group = *row.group;
  ordered_json asked = {{"group", group.name()}, {"policy", row.facts.policy}};
  if (!group.gate.empty()) asked["gate"] = group.gate_file;
  if (!group.model.empty()) asked["model"] = group.model;
  if (group.length > 0) asked["length"] = group.length;
  if (group.is_texts) {
    asked["chunk"] = group.chunk;
  } else {
    asked["seed"] = group.seed;
  }
  return asked.dump();
}

void add_identity(Columns& columns, const SweepPlan& plan, const SweepJournal& journal) {
  columns.texts("policy", "policy as requested", [](const Row& row) { return row.facts.policy; });
  columns.texts("gate",
                "gate from the entry's list, or else the one that the policy found; empty: the policy reads none",
                [](const Row& row) {
                  if (row.point == nullptr) return std::string();
                  return row.point->gate.empty() ? row.point->loads : row.point->gate;
                });
  if (std::ranges::any_of(plan.points, [](const SweepPoint& point) { return !point.model.empty(); }))
    columns.texts("model", "folder, where the entry has its own; empty: the recipe's model",
                  [](const Row& row) { return row.point ? row.point->model : std::string(); });
  columns.texts("curve", "name shared by points that differ only in the axis written as *; empty for the dense policy",
                [](const Row& row) { return row.point ? row.point->curve : std::string(); });
  for (const std::string& axis : plan.axes) add_axis(columns, plan, axis);
  columns.texts("item", "text or task", [](const Row& row) { return row.facts.item; });
  columns.numbers("length", "tokens", "of prompt and answer, or of a piece", [&](const Row& row) {
    const auto facts = journal.facts().find(row.group->name());
    return facts == journal.facts().end() ? kNotMeasured : facts->second.length;
  });
  columns.numbers("chunk", "tokens", "for texts: the policy acted after every so many tokens",
                  [](const Row& row) { return row.group->is_texts ? row.group->chunk : kNotMeasured; });
  columns.numbers("seed", "", "seed of a task's questions", [](const Row& row) {
    return row.group->is_texts ? kNotMeasured : static_cast<double>(row.group->seed);
  });
  columns.numbers("is_dense", "", "1: the policy that the others are compared with",
                  [](const Row& row) { return row.point ? 0.0 : 1.0; });
  columns.texts(
      "asked",
      "what the point was asked for, as JSON: its group in the facts, policy, gate of the entry's list, chunk of "
      "a text or seed of a task",
      asked_text);
  columns.numbers("n", "", "pieces of a text, or questions of a task",
                  [](const Row& row) { return static_cast<double>(row.facts.n); });
}

void add_text_values(Columns& columns) {
  columns.facts("nll", "nats/token", "mean over pieces of the mean over their tokens", &EvalRow::nll);
  columns.spread(
      "nll", [](const Row& row) { return number_of(row.facts, row.facts.nll); }, standard_error);
  columns.facts("nll_difference", "nats/token", "mean over pieces of nll - that of the dense policy on the same piece",
                &EvalRow::nll_difference);
  columns.spread(
      "nll_difference", [](const Row& row) { return row.facts.nll_difference; },
      [](const Row& row) { return row.facts.nll_difference_se; });
  columns.facts("perplexity", "", "exp(nll)", &EvalRow::perplexity);
}

void add_task_values(Columns& columns) {
  columns.facts("accuracy", "", "mean mark: 1 right, 0 wrong, or a share; of several rollouts of a question pass@1",
                &EvalRow::accuracy);
  columns.facts("accuracy_low", "",
                "lower end of the 95 % interval: Wilson's, or of shares or several rollouts Student's t",
                &EvalRow::low);
  columns.facts("accuracy_high", "", "upper end", &EvalRow::high);
  columns.facts("accuracy_relative", "", "accuracy / that of the dense policy on the same questions",
                &EvalRow::relative);
}

void add_costs(Columns& columns, double kv_bytes) {
  columns.facts("evicted", "tokens", "that had left by the last query, mean over heads", &EvalRow::evicted);
  columns.facts("triggers", "queries", "at which some head evicted something", &EvalRow::triggers);
  columns.facts("overflows", "queries",
                "at which a token older than its head's window left: 0 for a gate without a pool", &EvalRow::overflows);
  columns.facts("cache_size", "", "tokens held / tokens read, sinks and window too, mean over heads and queries",
                &EvalRow::cache_size);
  columns.facts("cache_size_end", "", "the same at the last query", &EvalRow::cache_size_end);
  columns.facts("window", "tokens", "the newest tokens, which the policy always keeps and density leaves out",
                &EvalRow::window);
  columns.facts("density", "", "kept / all outside the window at the last query, mean over heads", &EvalRow::density);
  columns.facts("read_share", "",
                "read / kept at the last query, mean over heads; only for policies that choose what to read",
                &EvalRow::read_share);
  columns.facts("cache_tokens", "tokens", "kept at the last query, sinks and window too, mean over heads",
                &EvalRow::cache_tokens);
  columns.numbers("cache_bytes", "bytes",
                  "cache_tokens * 2 * layers * KV heads * head_dim * bytes of a number of the run's format",
                  [kv_bytes](const Row& row) { return number_of(row.facts, row.facts.cache_tokens) * kv_bytes; });
  columns.facts("recall", "", "recall of the papers' oracle, mean over heads and queries with a choice",
                &EvalRow::recall);
  columns.facts("mass_recall", "", "future attention of what was kept / of the oracle's choice, likewise",
                &EvalRow::mass_recall);
  columns.facts("output_error", "", "mean over layers of the relative error of attention's output",
                &EvalRow::output_error);
  columns.numbers("ms_per_token", "ms", "for a text: reading it, including all measurements; for a task: decoding",
                  [](const Row& row) {
                    const double rate = number_of(row.facts, row.facts.tokens_per_s);
                    return rate > 0 ? 1000 / rate : kNotMeasured;
                  });
}

/// What each piece or question gave, [point][index]; NaN where the row is of the other kind.
void add_array(StudyTable& table, const std::vector<Row>& rows, bool of_texts, int n) {
  StudyArray array{
      .name = of_texts ? "piece_nll" : "question_right",
      .units = of_texts ? "nats/token" : "",
      .meaning = of_texts ? "mean over the piece's tokens" : "mean mark of its answers: 1 right, 0 wrong, or a share",
      .axes = {"point", of_texts ? "piece" : "question"},
      .shape = {static_cast<std::int64_t>(rows.size()), n},
      .values = std::vector<double>(rows.size() * static_cast<std::size_t>(n), kNotMeasured)};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].group->is_texts != of_texts) continue;
    std::map<int, std::pair<double, int>> sums;  // by question, over its rollouts
    for (const EvalAnswer& answer : rows[i].answers) {
      if (answer.index >= n) continue;
      auto& [sum, count] = sums[answer.index];
      sum += of_texts ? answer.nll : answer.mark(), ++count;
    }
    for (const auto& [index, sum] : sums)
      array.values[i * static_cast<std::size_t>(n) + static_cast<std::size_t>(index)] = sum.first / sum.second;
  }
  table.arrays.push_back(std::move(array));
}

std::string facts_text(const SweepJournal& journal) {
  ordered_json groups = ordered_json::object();
  for (const auto& [name, facts] : journal.facts()) groups[name] = json_of_fields(facts);
  return ordered_json{
      {"program", std::string(version())}, {"git_revision", std::string(git_revision())}, {"groups", groups}}
      .dump();
}

}  // namespace

StudyTable sweep_table(const SweepPlan& plan, const SweepJournal& journal, double kv_bytes) {
  StudyTable table{.kind = std::string(kSweepStudy), .request = plan.recipe, .facts = facts_text(journal)};
  const std::vector<Row> rows = rows_of(plan, journal);
  Columns columns(table, rows);
  add_identity(columns, plan, journal);
  if (!plan.request.texts.empty()) add_text_values(columns);
  if (!plan.request.tasks.empty()) add_task_values(columns);
  add_costs(columns, kv_bytes);
  if (!plan.request.texts.empty()) add_array(table, rows, true, plan.request.pieces);
  if (!plan.request.tasks.empty()) add_array(table, rows, false, plan.request.questions);
  add_derived(table, plan.cost, plan.matched);
  return table;
}

double kv_bytes_of_token(const SweepPlan& plan, const SweepJournal& journal) {
  if (journal.facts().empty()) return kNotMeasured;
  const std::string dtype = journal.facts().begin()->second.dtype;
  const double number = dtype == "float32" ? 4 : dtype == "bfloat16" || dtype == "float16" ? 2 : kNotMeasured;
  try {
    const ModelConfig config = ModelConfig::load(plan.model);
    return 2.0 * config.n_layers * config.n_kv_heads * config.head_dim * number;
  } catch (const Error&) {
    return kNotMeasured;  // the model is on the engine's machine
  }
}

}  // namespace kvscope::app
