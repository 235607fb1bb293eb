// The second half of kvscope compare: TRACE --policy SPEC.

#include <algorithm>
#include <array>
#include <cstdio>

#include "app/cli/command_list.h"
#include "app/cli/engine_job.h"
#include "app/cli/output.h"
#include "app/cli/same_model.h"
#include "app/process/trace_open.h"
#include "engine/core/policy/density.h"
#include "engine/core/protocol/events.h"
#include "engine/core/study/output_error.h"
#include "engine/core/study/retention_metrics.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

// What the model makes of the tokens under one policy.
struct Scored {
  std::vector<float> logprobs;
  std::vector<std::int32_t> greedy;  // the likeliest token at each position, -1 for the first
  HeadMap density;
  bool dense;  // no query missed a token
  ScoreQuality quality;
  PolicySpec policy;              // as it was: what nobody wrote is the gate's
  std::vector<float> thresholds;  // RunRecord::thresholds()
};

struct Cancelled {};

// How the tokens are read: as a run has them, or (chunk > 0) all of them under the policy, which acts every so often.
struct Reading {
  int chunk = 0;
  std::optional<OracleSpec> oracle = {};  // what else is measured
  bool output_error = false;

  std::string text() const {
    if (chunk == 0) return "the prompt as in a run under that policy, then token by token";
    if (chunk == 1) return "all of them under the policy, which acted after every token";
    return "all of them under the policy, which acted after every " + std::to_string(chunk) + " tokens";
  }
};

Scored score(EngineJob& job, const RunRecord& run, const PolicySpec& policy, const std::vector<PolicyChange>& changes,
             const Reading& reading) {
  ScoreRequest request{.text = "",
                       .ids = run.ids,
                       .policy = policy,
                       .changes = changes,
                       .n_positions = std::max(run.n_positions, run.n_tokens()),
                       .choices = true,
                       .oracle = reading.oracle,
                       .output_error = reading.output_error};
  if (reading.chunk > 0) {
    request.chunk = reading.chunk;
  } else {
    request.prompt_len = run.prompt_len;
    // Solved again on another device they come out otherwise, and the run would not be the one that was.
    if (policy == run.policy) request.thresholds = run.thresholds(), request.budgets = run.budgets_to_repeat();
  }
  const auto done = job.call(request);
  if (protocol::was_cancelled(done)) throw Cancelled{};
  ScoreFacts facts = protocol::score_from_event(done);
  const auto heads = static_cast<std::size_t>(run.model.n_layers) * run.model.n_kv_heads;
  if (facts.ids != run.ids || facts.greedy.size() != run.ids.size() || facts.density.size() != heads)
    throw Error({.code = ExitCode::resource, .file = "engine", .found = "an answer that does not match the run"});
  return {std::move(facts.logprobs),
          std::move(facts.greedy),
          {run.model.n_layers, run.model.n_kv_heads, std::move(facts.density)},
          facts.dense,
          facts.quality,
          std::move(facts.policy),
          std::move(facts.thresholds)};
}

// Mean over positions begin ... of -logprob, nats; NaN without any.
double nll(const std::vector<float>& logprobs, int begin) {
  double sum = 0;
  int n = 0;
  for (std::size_t i = static_cast<std::size_t>(std::max(begin, 1)); i < logprobs.size(); ++i, ++n) sum -= logprobs[i];
  return sum / n;
}

ordered_json change(double recorded, double compared) {
  return {{"recorded", number_or_null(recorded)},
          {"compared", number_or_null(compared)},
          {"change", number_or_null(compared - recorded)}};
}

// The first position of the answer where the likeliest token is another one.
ordered_json first_choice(const RunRecord& run, const Scored& recorded, const Scored& compared) {
  for (int i = std::max(run.prompt_len, 1); i < run.n_tokens(); ++i) {
    const auto a = recorded.greedy[i], b = compared.greedy[i];
    if (a != b) return {{"position", i}, {"recorded_id", a}, {"compared_id", b}};
  }
  return nullptr;
}

ordered_json changes_json(const RunRecord& run) {
  ordered_json changes = ordered_json::array();
  for (const PolicyChange& change : run.changes)
    changes.push_back({{"q", change.q}, {"policy", change.policy.to_string()}});
  return changes;
}

// What was asked for besides, under its name.
void add_quality(ordered_json& result, const ScoreQuality& recorded, const ScoreQuality& compared,
                 const Reading& reading) {
  if (reading.oracle) {
    result["recall"] = change(recorded.recall, compared.recall);
    result["chance"] = change(recorded.chance, compared.chance);
    result["mass_recall"] = change(recorded.mass_recall, compared.mass_recall);
  }
  if (reading.output_error) result["output_error"] = change(recorded.output_error, compared.output_error);
}

ordered_json comparison_json(int index, const RunRecord& run, const Scored& recorded, const Scored& compared) {
  ordered_json per_token = ordered_json::array();
  for (int i = 0; i < run.n_tokens(); ++i)
    per_token.push_back(number_or_null(compared.logprobs[i] - recorded.logprobs[i]));
  return {{"run", index},
          {"prompt_index", run.prompt_index},
          {"recorded_policy", run.policy.to_string()},
          {"recorded_changes", changes_json(run)},
          {"compared_policy", compared.policy.to_string()},
          {"solved",
           {{"recorded", describe_density(recorded.policy, recorded.thresholds)},
            {"compared", describe_density(compared.policy, compared.thresholds)}}},
          {"tokens", run.n_tokens()},
          {"prompt_tokens", run.prompt_len},
          {"nll", change(nll(recorded.logprobs, 1), nll(compared.logprobs, 1))},
          {"answer_nll", change(nll(recorded.logprobs, run.prompt_len), nll(compared.logprobs, run.prompt_len))},
          {"first_choice_change", first_choice(run, recorded, compared)},
          {"density", change(mean(recorded.density), mean(compared.density))},
          {"dense", {{"recorded", recorded.dense}, {"compared", compared.dense}}},
          {"logprob_change", std::move(per_token)}};
}

class Printer {
 public:
  explicit Printer(const std::string& model) : tokenizer_(tokenizer_of(model)) {}

  std::string token(int id) const {
    const std::string number = std::to_string(id);
    return tokenizer_ ? in_quotes(tokenizer_->piece(id), 24) + " " + number : number;
  }

  std::vector<std::string> row(const ordered_json& run) const {
    std::string choice = "none";
    if (const ordered_json& first = run["first_choice_change"]; !first.is_null()) {
      choice = std::to_string(first["position"].get<int>()) + ": " + token(first["recorded_id"].get<int>()) +
               " becomes " + token(first["compared_id"].get<int>());
    }
    return {std::to_string(run["run"].get<int>()),
            std::to_string(run["tokens"].get<int>()),
            number_cell(run["nll"]["recorded"]),
            number_cell(run["nll"]["compared"]),
            number_cell(run["nll"]["change"]),
            number_cell(run["answer_nll"]["change"]),
            number_cell(run["density"]["recorded"]),
            number_cell(run["density"]["compared"]),
            choice};
  }

 private:
  std::optional<Tokenizer> tokenizer_;
};

void print_tokens(const RunRecord& run, const Scored& recorded, const Scored& compared) {
  std::vector<std::vector<std::string>> rows = {{"position", "id", "recorded", "compared", "change", "piece"}};
  for (int i = 0; i < run.n_tokens(); ++i) {
    const auto piece = static_cast<std::size_t>(i) < run.pieces.size() ? run.pieces[i] : std::string_view();
    rows.push_back({std::to_string(i), std::to_string(run.ids[i]), format_number(recorded.logprobs[i]),
                    format_number(compared.logprobs[i]), format_number(compared.logprobs[i] - recorded.logprobs[i]),
                    escape_for_terminal(piece)});
  }
  std::printf("%s\n", format_table(rows).c_str());
}

Reading reading_of(const Arguments& arguments) {
  Reading reading = {.chunk = arguments.has("forced") ? 1 : 0, .output_error = arguments.has("output-error")};
  if (arguments.has("chunk")) reading.chunk = static_cast<int>(arguments.integer("chunk", 1, 1, 1 << 24));
  if (arguments.has("oracle")) reading.oracle = OracleSpec::parse(arguments.text("oracle"));
  return reading;
}

// A line a run for each of what was asked for besides.
void print_policy_quality(const ordered_json& runs) {
  const std::pair<const char*, const char*> lines[] = {{"recall", "oracle recall"},
                                                       {"chance", "chance"},
                                                       {"mass_recall", "mass recall"},
                                                       {"output_error", "output error"}};
  for (const ordered_json& run : runs) {
    for (const auto& [key, title] : lines) {
      if (!run.contains(key)) continue;
      std::printf("run %s, %s: recorded %s, compared %s\n", run["run"].dump().c_str(), title,
                  number_cell(run[key]["recorded"]).c_str(), number_cell(run[key]["compared"]).c_str());
    }
  }
}

// How it was measured, and what was no policy's doing.
void print_notes(const ordered_json& runs, const Reading& reading) {
  for (const char* side : {"recorded", "compared"}) {
    std::string dense;
    for (const ordered_json& run : runs) {
      if (run["dense"][side].get<bool>()) dense += (dense.empty() ? "" : ", ") + run["run"].dump();
    }
    if (!dense.empty()) std::printf("%s: dense (no query missed a token) in run %s\n", side, dense.c_str());
  }
  for (const ordered_json& run : runs) {
    for (const char* side : {"recorded", "compared"}) {
      if (const std::string solved = run["solved"][side].get<std::string>(); !solved.empty())
        std::printf("run %s, %s: %s\n", run["run"].dump().c_str(), side, solved.c_str());
    }
    for (const ordered_json& change : run["recorded_changes"])
      std::printf("run %s changed its policy at query %s to %s\n", run["run"].dump().c_str(),
                  change["q"].dump().c_str(), change["policy"].get<std::string>().c_str());
  }
  std::printf(
      "measured: the model read the recorded tokens under each policy, %s; nll in nats per token; density is %s\n",
      reading.text().c_str(), std::string(find_metric("density")->definition).c_str());
}

void print_comparison(const ordered_json& runs, const Printer& printer, const Reading& reading) {
  std::vector<std::vector<std::string>> rows = {{"run", "tokens", "nll recorded", "nll compared", "change",
                                                 "of the answer", "density recorded", "density compared",
                                                 "most probable token first changes at"}};
  for (const ordered_json& run : runs) rows.push_back(printer.row(run));
  std::printf("recorded  %s\ncompared  %s\n\n%s\n", runs[0]["recorded_policy"].get<std::string>().c_str(),
              runs[0]["compared_policy"].get<std::string>().c_str(), format_table(rows).c_str());
  print_policy_quality(runs);
  print_notes(runs, reading);
}

}  // namespace

int compare_policies(const Arguments& arguments) {
  const Reading reading = reading_of(arguments);
  const std::string& path = arguments.positionals()[0];
  const PolicySpec policy = PolicySpec::parse(arguments.text("policy"));
  if (reading.output_error) check_measurable(policy);
  TraceReader trace = open_trace(path);
  const TraceInfo& info = trace.info();
  const std::string folder = model_argument(arguments, arguments.text("model", info.model.path));
  if (info.n_runs == 0) throw Error({.file = path, .found = "a trace without runs"});
  const int first = static_cast<int>(arguments.integer("run", 0, 0, info.n_runs - 1));
  const int end = arguments.has("run") ? first + 1 : info.n_runs;
  const bool json = arguments.has("json");
  EngineJob job(arguments);
  load_same_model(job, folder, info.model, std::array{policy, trace.load(first).policy});
  job.show_engine_progress(end - first == 1);
  const Printer printer(folder);
  ordered_json runs = ordered_json::array();
  try {
    for (int i = first; i < end; ++i) {
      job.progress().update("compare", i - first, end - first);
      const RunRecord run = trace.load(i);
      const Scored recorded = score(job, run, run.policy, run.changes, reading),
                   compared = score(job, run, policy, {}, reading);
      runs.push_back(comparison_json(i, run, recorded, compared));
      add_quality(runs.back(), recorded.quality, compared.quality, reading);
      if (json || !arguments.has("per-token")) continue;
      job.progress().clear();
      print_tokens(run, recorded, compared);
    }
  } catch (const Cancelled&) {
    return static_cast<int>(ExitCode::cancelled);
  }
  job.progress().clear();
  if (json) {
    write_json_line(
        ordered_json{{"policy", runs[0]["compared_policy"]},
                     {"chunk", reading.chunk > 0 ? ordered_json(reading.chunk) : ordered_json(nullptr)},
                     {"measured", reading.text()},
                     {"oracle", reading.oracle ? ordered_json(reading.oracle->to_string()) : ordered_json(nullptr)},
                     {"runs", runs}});
  } else {
    print_comparison(runs, printer, reading);
  }
  return 0;
}

}  // namespace kvscope::app
