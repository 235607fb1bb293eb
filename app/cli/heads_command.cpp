// kvscope heads: which heads stay global in a hybrid, by one of SP-KV's strategies; exported for others to load.

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "app/cli/arguments.h"
#include "app/cli/output.h"
#include "app/process/trace_open.h"
#include "engine/core/files/gate/duo_directory.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kOptions[] = {
    {"strategy", "NAME", "a, b, c or d (densest) of SP-KV section 4 (d; of runs of one hybrid, their own heads)"},
    {"share", "X", "of c and d: share of the heads that stay global, 0 to 1 (0.25)"},
    {"count", "N", "of c and d, instead of --share: how many"},
    {"seed", "N", "of c: what the heads are drawn with (0)"},
    {"sinks", "N", "written into the export: first tokens that a local head keeps (the runs')"},
    {"window", "N", "written into the export: newest tokens that a local head keeps (the runs')"},
    {"export", "FORMAT:PATH", "duo:FOLDER writes DuoAttention's full_attention_heads.tsv and config.json"},
    {"overwrite", "", "replace files of those names"},
    {"json", "", "one object: strategy, share, heads, coverage, full [layers][kv_heads], warnings"},
};

constexpr std::int64_t kMostHeads = 1 << 24, kMostTokens = 1 << 24;

std::string export_folder(const Arguments& arguments) {
  const std::string target = arguments.text("export");
  if (target.empty()) return "";
  if (!target.starts_with("duo:") || target.size() == 4) usage_error("--export", "'" + target + "'", "duo:FOLDER");
  return target.substr(4);
}

/// Thousands of runs are held at once: lifetimes and policies of them, and nothing else.
RunRecord needed_for_heads(RunRecord run) {
  run.prompt_text.clear();
  run.command_line.clear();
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

void print_selection(const HeadSelection& selection) {
  for (int layer = 0; layer < selection.n_layers; ++layer) {
    std::printf("layer %2d  ", layer);
    for (int head = 0; head < selection.n_kv_heads; ++head) {
      std::fputs(selection.full[static_cast<std::size_t>(layer) * selection.n_kv_heads + head] > 0.5f ? "G" : ".",
                 stdout);
    }
    std::fputc('\n', stdout);
  }
  const std::string rule = selection.rule == "run" ? "the heads of the runs' own policy" : "strategy " + selection.rule;
  std::printf("%s: %s\n", rule.c_str(), describe(selection).c_str());
}

nlohmann::ordered_json selection_json(const HeadSelection& selection, std::size_t n_runs) {
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
          {"warnings", warnings_of(selection)}};
}

int heads(const Arguments& arguments) {
  const HeadQuestion question = question_of(arguments);
  const std::string folder = export_folder(arguments);
  const auto sinks = whole(arguments, "sinks", 0, kMostTokens), window = whole(arguments, "window", 1, kMostTokens);
  if (folder.empty() && (sinks || window)) usage_error(sinks ? "--sinks" : "--window", "no --export", "--export");
  const std::vector<RunRecord> runs = all_runs(arguments.positionals());
  const std::vector<const RunRecord*> pointers = run_pointers(runs);
  const HeadSelection selection = choose_heads(pointers, question);
  if (!folder.empty()) {
    const LocalSizes sizes = local_sizes(pointers, sinks, window);
    export_duo(selection, sizes.n_sink, sizes.window, folder, arguments.has("overwrite"));
  }
  if (arguments.has("json")) {
    write_json_line(selection_json(selection, runs.size()));
  } else {
    print_selection(selection);
  }
  for (const std::string& warning : warnings_of(selection)) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  return 0;
}

}  // namespace

extern const CommandSpec heads_command = {
    "heads",
    "TRACE... [--strategy a|b|c|d] [--share X | --count N] [--export duo:FOLDER]",
    "choose the heads that stay global in a hybrid, and export them",
    "Density and coverage count long-range entries (outside the window; sinks that lie outside it count) at the last "
    "query, over all runs of all traces. d takes the densest heads, a and b whole layers, c draws. Where all heads keep "
    "equally many, as under a fixed budget, d is refused; heads that tie at the cut are named. The folder that duo: "
    "writes loads in DuoAttention and kvpress, and here: --gate FOLDER with --policy duo or hybrid:heads=d runs the "
    "same heads, sinks and window.",
    "  kvscope heads traces.h5 --strategy d --count 6 --export duo:selected-heads",
    {1, 1000},
    kOptions,
    heads};

}  // namespace kvscope::app
