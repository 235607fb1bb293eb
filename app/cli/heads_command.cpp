// kvscope heads: which heads stay global in a hybrid, by one of SP-KV's strategies or by a head file; exported for others
// to load.

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "app/catalog/models.h"
#include "app/cli/arguments.h"
#include "app/cli/output.h"
#include "app/support/trace_open.h"
#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/files/gate/head_formats.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/study/heads/head_values.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kHeadsOptions[] = {
    {"strategy", "a|b|c|d", "a, b, c or d (densest) of SP-KV section 4 (d; for runs of one hybrid, their own heads)"},
    {"share", "X", "for c and d: share of the heads that stay global, 0 to 1 (0.25)"},
    {"count", "N", "for c and d: number of heads, instead of --share"},
    {"seed", "N", "for c: random seed (0)"},
    {"import", "FORMAT:PATH",
     "instead of traces: heads or scores from duo:, json:, headkv:, hf:, block:, kvzip:, rlkv:; MODEL gives the shape"},
    {"export", "FORMAT:PATH", "duo:FOLDER, json:FILE, headkv:FILE, hf:FILE or block:FILE; repeatable", true},
    {"sinks", "N", "exported number of first tokens that a local head keeps (default: the runs' or the file's)"},
    {"window", "N", "exported number of newest tokens that a local head keeps (same default)"},
    {"overwrite", "", "overwrite existing files"},
    {"json", "", "one object: strategy, share, heads, coverage, full [layers][kv_heads], warnings"},
};

constexpr std::int64_t kMostHeads = 1 << 24, kMostTokens = 1 << 24;

std::vector<HeadTarget> export_targets(const Arguments& arguments) {
  std::vector<HeadTarget> targets;
  for (const std::string& text : arguments.texts("export"))
    targets.push_back(parse_head_target(text, "--export", true));
  return targets;
}

/// Thousands of runs are held at once: lifetimes and policies of them, and nothing else.
RunRecord needed_for_heads(RunRecord run) {
  run.prompt_text.clear();
  run.asked.reset();
  run.pieces = {};
  run.logprobs = {};
  run.scores = run.future_mass = {};
  run.future = {};
  run.contests = {};
  run.reads = {};
  run.output_error = {};
  return run;
}

std::vector<RunRecord> all_runs(const std::vector<std::string>& paths) {
  std::vector<RunRecord> runs;
  for (const std::string& path : paths) {
    TraceReader trace = open_trace(path);
    if (trace.info().n_runs == 0) throw Error({.file = path, .found = "a trace without runs"});
    for (int i = 0; i < trace.info().n_runs; ++i) runs.push_back(needed_for_heads(trace.load(i)));
  }
  leave_out_empty(runs);
  if (runs.empty()) throw Error({.file = paths.front(), .found = "no run with tokens", .expected = "at least one"});
  return runs;
}

/// "a", "A", and the word that D had before it had its letter.
HeadStrategy strategy_of(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "densest") return HeadStrategy::d;
  const auto found = std::find(std::begin(kHeadStrategies), std::end(kHeadStrategies), name);
  if (found == std::end(kHeadStrategies)) usage_error("--strategy", "'" + name + "'", "a, b, c or d");
  return static_cast<HeadStrategy>(found - std::begin(kHeadStrategies));
}

std::optional<int> whole(const Arguments& arguments, const char* name, std::int64_t min, std::int64_t max) {
  if (!arguments.has(name)) return std::nullopt;
  return static_cast<int>(arguments.integer(name, 0, min, max));
}

HeadQuestion question_of(const Arguments& arguments) {
  HeadQuestion question;
  if (arguments.has("strategy")) question.strategy = strategy_of(arguments.text("strategy"));
  if (arguments.has("share")) question.share = arguments.real("share", 0, 0, 1);
  question.count = whole(arguments, "count", 0, kMostHeads);
  if (const auto seed = whole(arguments, "seed", 0, kMostTokens)) question.seed = static_cast<std::uint64_t>(*seed);
  return question;
}

void print_selection(const HeadSelection& selection, bool of_runs) {
  for (int layer = 0; layer < selection.n_layers; ++layer) {
    std::printf("layer %2d  ", layer);
    for (int head = 0; head < selection.n_kv_heads; ++head) {
      std::fputs(selection.full[static_cast<std::size_t>(layer) * selection.n_kv_heads + head] > 0.5f ? "G" : ".",
                 stdout);
    }
    std::fputc('\n', stdout);
  }
  const std::string rule = selection.rule == "run"    ? "the heads of the runs' own policy"
                           : selection.rule == "file" ? "the heads of the file"
                                                      : "strategy " + selection.rule;
  // Without a run there is nothing to cover.
  std::printf("%s: %s\n", rule.c_str(), (of_runs ? describe(selection) : describe_count(selection)).c_str());
}

nlohmann::ordered_json selection_json(const HeadSelection& selection, int n_runs,
                                      const std::vector<std::string>& warnings) {
  nlohmann::ordered_json full = nlohmann::ordered_json::array();
  for (int layer = 0; layer < selection.n_layers; ++layer) {
    const auto row = selection.full.begin() + static_cast<std::ptrdiff_t>(layer) * selection.n_kv_heads;
    full.push_back(std::vector<float>(row, row + selection.n_kv_heads));
  }
  return {{"strategy", selection.rule},
          {"share", static_cast<double>(selection.n_selected()) / selection.n_heads()},
          {"runs", n_runs},
          {"selected", selection.n_selected()},
          {"heads", selection.n_heads()},
          {"coverage", number_or_null(selection.coverage)},
          {"full", full},
          {"warnings", warnings}};
}

struct Chosen {
  HeadChoice choice;
  std::vector<std::filesystem::path> inputs;  // that no export may replace
};

Chosen choose_from_runs(const Arguments& arguments, const HeadQuestion& question, bool to_export) {
  Chosen chosen{.inputs = {arguments.positionals().begin(), arguments.positionals().end()}};
  const std::vector<RunRecord> runs = all_runs(arguments.positionals());
  const std::vector<const RunRecord*> pointers = run_pointers(runs);
  chosen.choice.selection = choose_heads(pointers, question);
  chosen.choice.origin.n_runs = static_cast<int>(runs.size());
  if (!to_export) return chosen;
  chosen.choice = choice_of_runs(
      pointers, std::move(chosen.choice.selection),
      local_sizes(pointers, whole(arguments, "sinks", 0, kMostTokens), whole(arguments, "window", 1, kMostTokens)));
  return chosen;
}

Chosen choose_from_file(const Arguments& arguments, const HeadQuestion& question, bool to_export) {
  const HeadTarget source = parse_head_target(arguments.text("import"), "--import", false);
  if (arguments.positionals().size() != 1)
    usage_error("--import", std::to_string(arguments.positionals().size()) + " more arguments", "only MODEL");
  const ModelConfig model = ModelConfig::load(model_folder(arguments.positionals()[0]));
  const HeadFile file =
      import_heads(source, {.n_layers = model.n_layers, .n_kv_heads = model.n_kv_heads, .n_heads = model.n_heads});
  Chosen chosen{.inputs = file.files};
  chosen.choice = {.selection = chosen_heads(file, question), .origin = file.origin, .group_size = file.group_size};
  if (!to_export) return chosen;
  const auto size = [&](const char* name, const std::optional<int>& said, int least) {
    const auto given = whole(arguments, name, least, kMostTokens);
    if (!given && !said)
      usage_error(dashed(name), "not given",
                  "a number of tokens, because " + arguments.text("import") + " does not give one");
    return given ? *given : *said;
  };
  chosen.choice.sizes = {size("sinks", file.n_sink, 0), size("window", file.window, 1)};
  return chosen;
}

int heads(const Arguments& arguments) {
  const HeadQuestion question = question_of(arguments);
  const std::vector<HeadTarget> targets = export_targets(arguments);
  for (const char* size : {"sinks", "window"})
    if (targets.empty() && arguments.has(size)) usage_error(dashed(size), "no --export", "--export as well");
  const bool of_runs = !arguments.has("import");
  const Chosen chosen = of_runs ? choose_from_runs(arguments, question, !targets.empty())
                                : choose_from_file(arguments, question, !targets.empty());
  const HeadSelection& selection = chosen.choice.selection;
  std::vector<std::string> warnings = of_runs ? warnings_of(selection) : warnings_of(selection, "have the same value");
  for (std::string& loss : export_heads(targets, chosen.choice, arguments.has("overwrite"), chosen.inputs))
    warnings.push_back(std::move(loss));
  if (arguments.has("json")) {
    write_json_line(selection_json(selection, chosen.choice.origin.n_runs, warnings));
  } else {
    print_selection(selection, of_runs);
  }
  for (const std::string& warning : warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  return 0;
}

}  // namespace

extern const CommandSpec heads_command = {
    "heads",
    "TRACE... | --import FORMAT:PATH MODEL [--strategy a|b|c|d] [--count N] [--export FORMAT:PATH]...",
    "choose the heads that stay global in a hybrid, and export them",
    "Density and coverage count long-range entries (those outside the window, including sinks) at the last query, "
    "over all runs of all traces. a and b take whole layers, c takes random heads, d takes the densest heads or "
    "those with the greatest values in a file. If all heads keep the same number of tokens, as under a fixed budget, "
    "d is refused; heads that tie at the cutoff are listed. docs/reference/head-files.md lists which tools read which "
    "format and what each format loses. KVScope can run a duo: folder or json: file itself: --gate PATH with "
    "--policy duo or hybrid:heads=d uses the same heads, sinks and window.",
    "  kvscope heads traces.h5 --strategy d --count 6 --export duo:selected-heads\n"
    "  kvscope heads --import rlkv:weights MODEL --share 0.3 --sinks 4 --window 64 --export duo:heads",
    {1, 1000},
    kHeadsOptions,
    heads};

}  // namespace kvscope::app
