// The second half of kvscope compare: TRACE --policy SPEC.

#include <array>
#include <cstdio>

#include "app/cli/command_list.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/engine_client/same_model.h"
#include "app/studies/rescore/rescore.h"
#include "app/support/trace_open.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

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
            number_cell(run["cache_size"]["recorded"]),
            number_cell(run["cache_size"]["compared"]),
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
      "measured: the model read the recorded tokens under each policy, %s; nll in nats per token; cache size is tokens "
      "held / tokens read, mean over heads and queries; density is %s\n",
      reading.text().c_str(), std::string(find_metric("density")->definition).c_str());
}

void print_comparison(const ordered_json& runs, const Printer& printer, const Reading& reading) {
  std::vector<std::vector<std::string>> rows = {
      {"run", "tokens", "nll recorded", "nll compared", "change", "of the answer", "cache size recorded",
       "cache size compared", "density recorded", "density compared", "most probable token first changes at"}};
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
  const std::string folder = model_for(engine_options(arguments), arguments.text("model", info.model.path));
  if (info.n_runs == 0) throw Error({.file = path, .found = "a trace without runs"});
  const int first = static_cast<int>(arguments.integer("run", 0, 0, info.n_runs - 1));
  const int end = arguments.has("run") ? first + 1 : info.n_runs;
  const bool json = arguments.has("json");
  EngineJob job(engine_options(arguments));
  load_same_model(job, folder, info.model, std::array{policy, trace.load(first).policy});
  job.show_engine_progress(end - first == 1);
  const Printer printer(folder);
  ordered_json runs = ordered_json::array();
  for (int i = first; i < end; ++i) {
    job.progress().update("compare", i - first, end - first);
    const RunRecord run = trace.load(i);
    const std::optional<Scored> recorded = score_run(job, run, run.policy, run.changes, reading);
    const std::optional<Scored> compared = recorded ? score_run(job, run, policy, {}, reading) : std::nullopt;
    if (!compared) return static_cast<int>(ExitCode::cancelled);
    runs.push_back(comparison_json(i, run, *recorded, *compared, reading));
    if (json || !arguments.has("per-token")) continue;
    job.progress().clear();
    print_tokens(run, *recorded, *compared);
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
