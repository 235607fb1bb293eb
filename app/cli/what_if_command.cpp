// kvscope what-if: another policy on recorded scores, without the model.

#include <cstdio>

#include "app/catalog/gates.h"
#include "app/cli/arguments.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/engine_client/same_model.h"
#include "app/support/trace_open.h"
#include "engine/core/files/gate/gate_name.h"
#include "engine/core/policy/declared_policy.h"
#include "engine/core/protocol/events.h"
#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kWhatIfOptions[] = {
    {"run", "N", "which run of the trace (0)"},
    {"oracle", "SPEC", "judge by another oracle of the recorded masses, written as in run --oracle"},
    {"model", "PATH", "its gates score the tokens if the run did not record the scores that SPEC reads"},
    kGateOption,
    {"json", "", "one object: recorded and preview, each metric's mean over the heads"},
    kEngineOption,
    kDeviceOption,
    kDtypeOption,
    kQuietOption,
};

constexpr const char* kMetrics[] = {"density", "evict_ratio", "cache_share"};
/// Of the run's own oracle, over all pairs of head and query: the numbers of `kvscope inspect`.
struct OracleNumber {
  const char* name;
  const char* definition;
};
constexpr OracleNumber kOracleNumbers[] = {
    {"recall", kRecallDefinition.data()},
    {"chance", "recall of the same number of random tokens, mean over the same pairs"},
    {"above_chance", "(recall - chance) / (1 - chance)"},
    {"mass_recall", "future attention of the kept tokens / of the oracle's tokens, mean over the same pairs"},
    {"k", "tokens that the oracle keeps in a head, mean over the same pairs"}};

nlohmann::ordered_json means(const RunRecord& run) {
  nlohmann::ordered_json result = {{"policy", run.policy.to_string()}, {"oracle", run.oracle.to_string()}};
  for (const char* name : kMetrics) {
    result[name] = number_or_null(mean(head_metric(run, find_metric(name)->metric, run.n_tokens() - 1)));
  }
  const OracleMean mean = mean_of(Oracle(run));
  const double numbers[] = {mean.recall, mean.chance, mean.above_chance(), mean.mass_recall, mean.capacity};
  for (std::size_t i = 0; i < std::size(numbers); ++i) result[kOracleNumbers[i].name] = number_or_null(numbers[i]);
  return result;
}

// How the masses were made is recorded; what is made of them may be asked anew.
void ask_oracle(RunRecord& run, const std::string& text) {
  OracleSpec spec = OracleSpec::parse(text);
  for (const char* key : {"agg=", "lse=", "ahead=", "kinds="}) {
    if (text.starts_with(key) || text.find("," + std::string(key)) != std::string::npos)
      usage_error("--oracle", in_quotes(text, 80), "mass, weight, capacity and budget",
                  "the others are fixed by the recording: " + run.oracle.to_string());
  }
  spec.aggregate = run.oracle.aggregate;
  spec.sparse_lse = run.oracle.sparse_lse;
  spec.look_ahead = run.oracle.look_ahead;
  spec.all_kinds = run.oracle.all_kinds;
  if (!Oracle(run, spec).is_known()) {
    throw Error({.file = "--oracle",
                 .found = text,
                 .expected = "masses that the run recorded (" + run.oracle.to_string() + ")",
                 .hint = "kvscope run and capture record all of them except with kinds=one or --no-oracle"});
  }
  run.oracle = spec;
}

// What the gates of --model say of the run's tokens; nothing where they are not asked or need not be.
std::optional<ScoresOfGates> gate_scores(const Arguments& arguments, const RunRecord& run, const PolicySpec& spec) {
  if (!arguments.has("model") && !arguments.has("gate")) return ScoresOfGates();
  const std::string folder = model_for(engine_options(arguments), arguments.text("model", run.model.path));
  std::string gate;  // of an engine elsewhere it is not known which one a text means
  if (arguments.has("gate") && !arguments.has("engine"))
    gate = gate_name(gate_path(arguments.texts("gate").front(), folder));
  if (!lacks_scores(run, spec, "", gate)) return ScoresOfGates();
  EngineJob job(engine_options(arguments));
  load_same_model(job, folder, run.model, std::array{spec});
  const auto done = job.call(GateScoresRequest{.ids = run.ids});
  if (protocol::was_cancelled(done)) return std::nullopt;
  return protocol::gate_scores_from_event(done, run.model);
}

int what_if(const Arguments& arguments) {
  const bool is_declared = is_declared_name(arguments.positionals()[1].substr(0, arguments.positionals()[1].find(':')));
  if (!is_declared) PolicySpec::parse(arguments.positionals()[1]);  // refused before a long trace is read
  RunRecord recorded =
      open_trace(arguments.positionals()[0]).load(static_cast<int>(arguments.integer("run", 0, 0, 1 << 30)));
  const PolicySpec spec = PolicySpec::parse(arguments.positionals()[1], recorded.policy.declared);
  if (arguments.has("oracle")) ask_oracle(recorded, arguments.text("oracle"));
  const auto gates = gate_scores(arguments, recorded, spec);
  if (!gates) return static_cast<int>(ExitCode::cancelled);
  const RunRecord preview = kvscope::what_if(recorded, spec, *gates);
  const auto a = means(recorded), b = means(preview);
  const std::string note = what_if_note(recorded, preview);
  if (arguments.has("json")) {
    nlohmann::ordered_json result = {{"recorded", a}, {"preview", b}};
    if (!(preview.scorer == recorded.scorer)) result["scored_by"] = preview.scorer.text;
    if (!note.empty()) result["note"] = note;
    write_json_line(result);
  } else {
    std::printf("recorded  %s\npreview   %s  (not measured)\n", recorded.policy.to_string().c_str(),
                preview.policy.to_string().c_str());
    if (!note.empty()) std::printf("note      %s\n", note.c_str());
    std::printf("\n");
    std::vector<std::vector<std::string>> rows = {{"mean over heads", "recorded", "preview", "definition"}};
    for (const char* name : kMetrics) {
      rows.push_back({name, number_cell(a[name]), number_cell(b[name]), std::string(find_metric(name)->definition)});
    }
    for (const OracleNumber& number : kOracleNumbers)
      rows.push_back({number.name, number_cell(a[number.name]), number_cell(b[number.name]), number.definition});
    std::fputs(format_table(rows).c_str(), stdout);
  }
  return 0;
}

}  // namespace

extern const CommandSpec what_if_command = {
    "what-if",
    "TRACE SPEC [--run N] [--oracle SPEC] [--model PATH [--gate PATH|NAME]]",
    "preview what another policy would keep, from recorded scores",
    "A preview: it uses the recorded scores, although evicting other tokens in one layer changes the scores of the "
    "layers above it. To measure, run the model (kvscope run). If the run's policy has the same name, settings that "
    "SPEC leaves out are the run's. If the run lacks the scores that SPEC reads, as under full, give --model: a "
    "dense pass over its tokens makes them.",
    "  kvscope what-if a.h5 kvpop:keep=10%\n"
    "  kvscope what-if full.h5 wg-kv --model smollm2-135m",
    {2, 2},
    kWhatIfOptions,
    what_if};

}  // namespace kvscope::app
