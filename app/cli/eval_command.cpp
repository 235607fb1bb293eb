// kvscope eval: the engine asks and answers, this command keeps the answers and makes the table.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <list>

#include "app/cli/arguments.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/studies/eval/eval_journal.h"
#include "app/studies/eval/eval_table.h"
#include "app/studies/eval/evaluate.h"
#include "app/studies/eval/length_table.h"
#include "app/studies/sweep/eval_study.h"
#include "app/studies/sweep/sweep_journal.h"
#include "app/support/paths.h"
#include "app/support/split.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/study/measure/task_sets.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kEvalOptions[] = {
    {"tasks", "NAME,...",
     "tasks of docs/reference/tasks.md, or ruler: 13 tasks, helmet: 7 (those that suit the model)"},
    {"policies", "SPEC;...", "separated by semicolons; the dense policy is always included (three at 25 %)"},
    {"sweep", "", "all policies that need no gate, at 50, 25 and 12.5 % kept"},
    {"questions", "N", "questions of each task (100)"},
    {"rollouts", "N", "sampled answers to each question (1, greedy); the table then has pass@1"},
    {"temperature", "T", "of the samples (0.6 with --rollouts)"},
    {"top-p", "P", "of the samples (0.95 with --rollouts)"},
    {"texts", "FILE", "read pieces of this text for NLL and perplexity; repeatable", true},
    {"pieces", "N", "pieces of each text (8)"},
    {"length", "N,...", "tokens of prompt plus answer, and of a piece (2048, or the context); several: a column each"},
    {"chunk", "N", "for texts: the policy acts after every N tokens (1)"},
    {"seed", "N", "seed of the questions (1)"},
    {"filler", "FILE", "English text around the questions (the project's held-out text)"},
    {"chat", "", "wrap the questions in the model's chat template"},
    {"oracle", "", "also measure recall of the papers' oracle (mean, capacity per head); one dense pass each"},
    {"output-error", "", "also measure output error; one pass each"},
    {"o", "FILE.h5", "the study to write (HDF5); a stopped one continues from FILE.h5.answers"},
    {"format", "text|json|latex", "format of the table (text)"},
    kGateOption,
    kDeviceOption,
    kDtypeOption,
    kEngineOption,
    kQuietOption,
    {"json", "", "same as --format json"},
};

void read_sampling(const Arguments& arguments, EvalRequest& request) {
  request.rollouts = static_cast<int>(arguments.integer("rollouts", 1, 1, 10'000));
  const bool samples = request.rollouts > 1;
  request.temperature = arguments.real("temperature", samples ? kRolloutTemperature : 0, 0, 100);
  request.top_p = arguments.real("top-p", samples ? kRolloutTopP : 1, 1e-6, 1);
  if (samples && request.temperature == 0)
    usage_error("--temperature", "0 with --rollouts " + std::to_string(request.rollouts),
                "more than 0: greedy rollouts are all the same");
}

EvalRequest request_of(const Arguments& arguments, const EngineJobOptions& engine) {
  EvalRequest request;
  request.model = model_for(engine, arguments.positionals()[0]);
  request.device = arguments.text("device", request.device);
  request.dtype = arguments.text("dtype", request.dtype);
  request.tasks = expanded_tasks(split(arguments.text("tasks"), ',', " "));
  request.policies = split(arguments.text("policies"), ';', " ");
  std::vector<PolicySpec> policies;
  for (const std::string& text : request.policies) policies.push_back(PolicySpec::parse(text));
  request.gates = gates_for(engine, request.model, policies);
  request.sweep = arguments.has("sweep");
  request.texts = arguments.texts("texts");
  request.questions = static_cast<int>(arguments.integer("questions", request.questions, 1, 100'000));
  request.pieces = static_cast<int>(arguments.integer("pieces", request.pieces, 1, 100'000));
  request.chunk = static_cast<int>(arguments.integer("chunk", request.chunk, 1, kMaxPositions));
  request.seed = static_cast<std::uint64_t>(arguments.integer("seed", 1, 0, INT64_MAX / 2));
  request.filler = arguments.text("filler");
  request.chat = arguments.has("chat");
  request.oracle = arguments.has("oracle");
  request.output_error = arguments.has("output-error");
  read_sampling(arguments, request);
  if (request.filler.empty()) request.filler = heldout_text().string();
  return request;
}

/// 0: the engine's choice.
std::vector<int> lengths_of(const Arguments& arguments) {
  if (!arguments.has("length")) return {0};
  std::vector<int> lengths;
  for (const std::string& text : split(arguments.text("length"), ',', " ")) {
    int length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const bool is_new = std::ranges::find(lengths, length) == lengths.end();
    if (error != std::errc() || end != text.data() + text.size() || length < 16 || length > kMaxPositions || !is_new)
      usage_error("--length", "'" + text + "'",
                  "whole numbers from 16 to " + std::to_string(kMaxPositions) + ", each once, separated by commas");
    lengths.push_back(length);
  }
  if (lengths.empty()) usage_error("--length", "no number", "a whole number from 16, or several separated by commas");
  return lengths;
}

/// The engine refuses a length that is too great too, but only after those before it. It may have the model elsewhere.
void check_context(const std::string& model, const std::vector<int>& lengths) {
  std::error_code error;
  if (lengths.size() == 1 || !std::filesystem::exists(std::filesystem::path(model) / "config.json", error)) return;
  const int context = ModelConfig::load(model).max_positions, length = std::ranges::max(lengths);
  if (length > context)
    usage_error("--length", std::to_string(length) + " tokens",
                "at most the model's context of " + std::to_string(context));
}

/// "e.h5.answers", of one of several lengths "e.h5.answers.4096".
std::filesystem::path answers_path(const std::filesystem::path& study, int length, bool is_one) {
  return journal_path(study).string() + (is_one ? "" : "." + std::to_string(length));
}

/// Refuses what is in the way of the study. One beside its answers is made again from them: EvalJournal knows whose they are.
std::filesystem::path target_of(const Arguments& arguments, const EvalRequest& request,
                                const std::vector<int>& lengths) {
  const std::filesystem::path study = arguments.text("o");
  if (study.extension() != ".h5") usage_error("-o", in_quotes(study.string()), "a name that ends in .h5");
  std::vector<std::filesystem::path> inputs(request.texts.begin(), request.texts.end());
  inputs.emplace_back(request.filler);
  std::error_code error;
  const bool has_answers = std::ranges::any_of(lengths, [&](int length) {
    return std::filesystem::exists(answers_path(study, length, lengths.size() == 1), error);
  });
  writable_target(study, has_answers, inputs, "use another -o");
  return study;
}

std::string table_of(const std::vector<EvalResult>& results, TableFormat format) {
  if (results.size() > 1) return length_table(results, format);
  return eval_table(results[0].facts, summarise(results[0].answers), format);
}

int eval(const Arguments& arguments) {
  const TableFormat format = table_format(arguments.has("json") ? "json" : arguments.text("format", "text"));
  const EngineJobOptions engine = engine_options(arguments);
  EvalRequest request = request_of(arguments, engine);
  const std::vector<int> lengths = lengths_of(arguments);
  check_context(request.model, lengths);
  const std::filesystem::path study = arguments.has("o") ? target_of(arguments, request, lengths) : "";
  EvalRequest written = request;
  written.gates = gates_in_study(request.gates);
  // One file of answers for each length: a longer list goes on with those that there are.
  std::list<EvalJournal> files;
  for (const int length : lengths) {
    written.length = length;
    files.emplace_back(study.empty() ? "" : answers_path(study, length, lengths.size() == 1), written);
  }
  EngineJob job(engine);
  std::vector<EvalResult> results;
  bool is_whole = true;
  for (auto file = files.begin(); is_whole && file != files.end(); ++file) {
    request.length = lengths[results.size()];
    request.done = file->done();
    is_whole = evaluate(job, request,
                        {.facts = [&](const EvalFacts& facts) { file->begin(facts); },
                         .answer = [&](const EvalAnswer& answer) { file->append(answer); }});
    results.push_back({file->facts(), file->answers()});
  }
  job.progress().clear();
  if (is_whole && !study.empty()) write_study(study, eval_study(written, results), true);
  std::fputs(table_of(results, format).c_str(), stdout);
  return static_cast<int>(is_whole ? ExitCode::done : ExitCode::cancelled);
}

}  // namespace

extern const CommandSpec eval_command = {
    "eval",
    "MODEL [options]",
    "test what a model still finds and how well it predicts a text, under several policies",
    "Asks seeded questions and decodes the answers. Answers are marked as right or wrong, with Wilson's 95 % interval, or "
    "by a share, and compared with the dense model on the same questions. docs/reference/tasks.md defines tasks and "
    "columns.",
    "  kvscope eval samples/models/kvscope-tiny --policies 'kvpop:budget=512;streaming:window=508'\n"
    "  kvscope eval MODEL --tasks needle --sweep --questions 50 -o eval.h5 --format latex",
    {1, 1},
    kEvalOptions,
    eval};

}  // namespace kvscope::app
