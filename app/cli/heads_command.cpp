// kvscope heads: which heads stay global in a hybrid, from the density that was measured; exported for others to load.

#include <cstdio>

#include "app/cli/arguments.h"
#include "app/cli/output.h"
#include "app/process/trace_open.h"
#include "engine/core/files/gate/duo_directory.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kOptions[] = {
    {"strategy", "NAME", "densest (D of SP-KV section 4) (densest)"},
    {"share", "X", "share of the heads that stay global, 0 to 1 (0.25)"},
    {"export", "FORMAT:PATH", "duo:FOLDER writes DuoAttention's full_attention_heads.tsv and config.json"},
    {"overwrite", "", "replace files of those names"},
    {"json", "", "one object: heads, coverage, full [layers][kv_heads]"},
};

std::string export_folder(const Arguments& arguments) {
  const std::string target = arguments.text("export");
  if (target.empty()) return "";
  if (!target.starts_with("duo:") || target.size() == 4) usage_error("--export", "'" + target + "'", "duo:FOLDER");
  return target.substr(4);
}

std::vector<RunRecord> all_runs(const std::vector<std::string>& paths) {
  std::vector<RunRecord> runs;
  for (const std::string& path : paths) {
    const TraceInfo info = load_info(path);
    if (info.n_runs == 0) throw Error({.file = path, .found = "a trace without runs"});
    for (int i = 0; i < info.n_runs; ++i) runs.push_back(load_run(path, i));
  }
  return runs;
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
  std::printf("%d of %d heads global, coverage %.2f %% of the long-range entries retained\n", selection.n_selected(),
              selection.n_layers * selection.n_kv_heads, 100 * selection.coverage);
}

int heads(const Arguments& arguments) {
  const std::string strategy = arguments.text("strategy", "densest");
  if (strategy != "densest" && strategy != "D") usage_error("--strategy", "'" + strategy + "'", "densest (or D)");
  const double share = arguments.real("share", 0.25, 0, 1);
  const std::string folder = export_folder(arguments);
  const std::vector<RunRecord> runs = all_runs(arguments.positionals());
  const std::vector<const RunRecord*> pointers = run_pointers(runs);
  const HeadSelection selection = densest_heads(pointers, share);
  if (!folder.empty()) {
    const RetentionGeometry geometry = runs[0].geometry();
    export_duo(selection, geometry.n_sink, geometry.window, folder, arguments.has("overwrite"));
  }
  if (arguments.has("json")) {
    nlohmann::ordered_json full = nlohmann::ordered_json::array();
    for (int layer = 0; layer < selection.n_layers; ++layer) {
      const auto row = selection.full.begin() + static_cast<std::ptrdiff_t>(layer) * selection.n_kv_heads;
      full.push_back(std::vector<float>(row, row + selection.n_kv_heads));
    }
    write_json_line(nlohmann::ordered_json{{"strategy", "densest"},
                                           {"share", share},
                                           {"runs", runs.size()},
                                           {"selected", selection.n_selected()},
                                           {"heads", selection.n_layers * selection.n_kv_heads},
                                           {"coverage", selection.coverage},
                                           {"full", full}});
  } else {
    print_selection(selection);
  }
  return 0;
}

}  // namespace

extern const CommandSpec heads_command = {
    "heads",
    "TRACE... [--share X] [--export duo:FOLDER]",
    "choose the heads that stay global in a hybrid, and export them",
    "Density and coverage count long-range entries (outside window and sinks) over all runs of all traces. The "
    "folder that duo: writes loads in DuoAttention and kvpress.",
    "  kvscope heads traces.h5 --strategy densest --share 0.25 --export duo:selected-heads",
    {1, 1000},
    kOptions,
    heads};

}  // namespace kvscope::app
