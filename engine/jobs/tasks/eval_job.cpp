// Defines eval_job: a model, tasks and policies in; exact matches and oracle recall out.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/text.h"
#include "engine/jobs/job.h"
#include "engine/jobs/tasks/eval_policy.h"

namespace kvscope::engine {
namespace {

constexpr std::size_t kMaxTextBytes = 64u << 20;
constexpr std::size_t kRecallSequences = 16;
constexpr std::uint64_t kEvalSalt = 0x6576616c75617465;  // "evaluate": no seed of a training stream

struct EvalOptions {
  std::string model, device, dtype, text;
  std::vector<TaskKind> tasks;
  std::vector<std::string> policies, gates;
  int questions;
  std::uint64_t seed;

  static EvalOptions parse(const nlohmann::json& args);
};

std::vector<std::string> texts_or(const JsonObject& object, const char* key, std::vector<std::string> fallback) {
  std::vector<std::string> list = object.texts(key);
  return list.empty() ? fallback : list;
}

EvalOptions EvalOptions::parse(const nlohmann::json& args) {
  const JsonObject object(args, "eval");
  EvalOptions options;
  options.model = object.text("model");
  options.device = object.text_or("device", "auto");
  options.dtype = object.text_or("dtype", "auto");
  options.text = object.text_or("text", "");
  options.questions = static_cast<int>(object.integer_or("questions", 100, 1, 100'000));
  options.gates = object.texts("gates");
  options.seed = static_cast<std::uint64_t>(object.integer_or("seed", 1, 0, INT64_MAX));
  options.policies =
      texts_or(object, "policies", {"full", "streaming:sinks=4,window=508", "random:budget=512", "kvpop:budget=512"});
  for (const std::string& name : texts_or(object, "tasks", {"reversal", "fact_recall"})) {
    const auto* found = std::find_if(std::begin(kTaskKinds), std::end(kTaskKinds),
                                     [&](TaskKind kind) { return to_string(kind) == name; });
    if (found == std::end(kTaskKinds)) {
      throw Error({.code = ExitCode::usage, .where = "--tasks", .found = name, .expected = "reversal, fact_recall"});
    }
    options.tasks.push_back(*found);
  }
  return options;
}

struct Count {
  int right = 0, asked = 0;
};

/// One policy's result: a row of the table.
struct EvalRow {
  EvalPolicy policy;
  std::map<TaskKind, Count> counts;
  double recall = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;

  nlohmann::json to_json() const {
    nlohmann::json json = {{"policy", policy.title}, {"spec", policy.spec.to_string()}, {"seconds", seconds}};
    json["budget"] = policy.budget > 0 ? nlohmann::json(policy.budget) : nlohmann::json(nullptr);
    json["oracle_recall"] = std::isnan(recall) ? nlohmann::json(nullptr) : nlohmann::json(recall);
    for (const auto& [kind, count] : counts) {
      json["tasks"][std::string(to_string(kind))] = {{"right", count.right}, {"asked", count.asked}};
    }
    return json;
  }
};

std::string share_text(double share) { return std::isnan(share) ? "" : fixed_text(share, 3); }

std::string markdown(const std::vector<EvalRow>& rows, const std::vector<TaskKind>& tasks) {
  std::string text = "| budget | policy |", rule = "|---|---|";
  for (const TaskKind kind : tasks) {
    text += " " + std::string(to_string(kind)) + " |";
    rule += "---|";
  }
  text += " oracle recall |\n" + rule + "---|\n";
  for (const EvalRow& row : rows) {
    text += "| " + (row.policy.budget > 0 ? std::to_string(row.policy.budget) : std::string("all")) + " | " +
            row.policy.title + " |";
    for (const TaskKind kind : tasks) {
      const Count count = row.counts.at(kind);
      text += " " + share_text(static_cast<double>(count.right) / count.asked) + " (" + std::to_string(count.right) +
              " of " + std::to_string(count.asked) + ") |";
    }
    text += " " + share_text(row.recall) + " |\n";
  }
  return text;
}

/// Puts all questions to one policy.
EvalRow evaluate(const LoadedModel& model, const EvalPolicy& policy, const QuestionSet& set, std::uint64_t seed,
                 const Hooks& hooks, const std::function<void(std::size_t done)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  EvalRow row{.policy = policy};
  LifetimeMap prepared;
  for (std::size_t i = 0; i < set.questions.size(); ++i) {
    if (hooks.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
    const Question& question = set.questions[i];
    const TaskSequence& sequence = set.sequences[question.sequence];
    if (i == 0 || question.sequence != set.questions[i - 1].sequence) {
      prepared = prepare_sequence(model, policy, sequence, seed + question.sequence);
    }
    Count& count = row.counts[question.answer.kind];
    ++count.asked;
    count.right += answers(model, policy, sequence, prepared, question.answer, hooks);
    progress(i + 1);
  }
  double sum = 0;
  const std::size_t n_recall = std::min(kRecallSequences, set.sequences.size());
  for (std::size_t i = 0; i < n_recall; ++i) {
    if (hooks.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
    prepared = prepare_sequence(model, policy, set.sequences[i], seed + i);
    sum += sequence_recall(model, policy, set.sequences[i], prepared, hooks);
  }
  row.recall = sum / static_cast<double>(n_recall);
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return row;
}

nlohmann::json run_eval(const EvalOptions& options, JobContext& context) {
  Hooks hooks;
  hooks.cancelled = [&] { return context.cancelled != nullptr && context.cancelled->load(); };
  const LoadedModel model = LoadedModel::load(options.model, {options.device, options.dtype, options.gates});
  const int length = model.config().max_positions;
  std::vector<EvalPolicy> policies;
  int largest_budget = 0;
  for (const std::string& text : options.policies) {
    policies.push_back(EvalPolicy::parse(text, length, &model));
    largest_budget = std::max(largest_budget, policies.back().budget);
  }
  const std::string text = read_file(heldout_file(options.text, options.model), kMaxTextBytes);
  QuestionSet set =
      make_questions(model.tokenizer(), text, length, largest_budget, options.questions, options.seed ^ kEvalSalt);
  std::erase_if(set.questions, [&](const Question& question) {
    return std::find(options.tasks.begin(), options.tasks.end(), question.answer.kind) == options.tasks.end();
  });

  std::vector<EvalRow> rows;
  nlohmann::json table = nlohmann::json::array();
  const double n_all = static_cast<double>(set.questions.size() * policies.size());
  for (const EvalPolicy& policy : policies) {
    rows.push_back(evaluate(model, policy, set, options.seed, hooks, [&](std::size_t done) {
      if (!context.progress) return;
      const double before = static_cast<double>(rows.size() * set.questions.size());
      context.progress("eval", before + static_cast<double>(done), n_all, policy.title);
    }));
    table.push_back(rows.back().to_json());
    if (context.row) context.row(markdown({rows.back()}, options.tasks), table.back());
  }
  return {{"status", "done"},
          {"model", options.model},
          {"device", model.info().device},
          {"dtype", model.info().dtype},
          {"seed", options.seed},
          {"length", length},
          {"after_position", largest_budget},
          {"definition",
           "exact match of greedy decoding from the true text before each question; held-out text and seeds; only "
           "answers that begin after the largest budget; oracle recall: mean over layers, KV heads, " +
               std::to_string(kRecallSequences) + " sequences and queries with a full cache, long-range tokens only"},
          {"rows", table},
          {"markdown", markdown(rows, options.tasks)}};
}

}  // namespace

nlohmann::json eval_job(const nlohmann::json& args, JobContext& context) {
  const EvalOptions options = EvalOptions::parse(args);
  try {
    return run_eval(options, context);
  } catch (const Error& error) {
    if (error.code() != ExitCode::cancelled) throw;
    return {{"status", "cancelled"}};
  }
}

}  // namespace kvscope::engine
