// kvscope merge: the shards of a capture as one trace.

#include <cstdio>
#include <filesystem>

#include "app/cli/arguments.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/support/interrupt.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/merge_notes.h"
#include "engine/core/trace/trace_merge.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kMergeOptions[] = {
    {"o", "FILE", "the trace to write (HDF5)"},
    {"overwrite", "", "overwrite FILE if it exists"},
    {"copy", "", "copy all data, so that the shards are not needed afterwards"},
    {"allow-missing", "", "leave out prompts that no shard has answered"},
    kQuietOption,
    {"json", "", "one object: trace, runs, prompts, tokens, notes, missing"},
};

int merge(const Arguments& arguments) {
  if (!arguments.has("o")) usage_error("kvscope merge", "no -o FILE", "", "give the trace to write");
  catch_interrupts();
  Progress progress(arguments.has("quiet"));
  const auto show = [&](int done, int total) {
    if (interrupted()) throw Error({.code = ExitCode::cancelled, .found = "cancelled; nothing was written"});
    progress.update("merge", done, total);
  };
  const std::vector<std::filesystem::path> shards(arguments.positionals().begin(), arguments.positionals().end());
  const MergeReport report = merge_traces(shards, arguments.text("o"),
                                          {.overwrite = arguments.has("overwrite"),
                                           .copy = arguments.has("copy"),
                                           .allow_missing = arguments.has("allow-missing"),
                                           .program = "/proc/self/exe",
                                           .progress = show});
  progress.clear();
  const MergedNotes notes = merge_notes(shards, report.from, arguments.text("o"));
  for (const std::string& line : notes.unread)
    std::fprintf(stderr, "warning: %s; these notes are not merged\n", escape_for_terminal(line).c_str());
  if (arguments.has("json")) {
    write_json_line(nlohmann::ordered_json{{"trace", arguments.text("o")},
                                           {"shards", shards.size()},
                                           {"runs", report.n_runs},
                                           {"prompts", report.n_prompts},
                                           {"tokens", report.n_tokens},
                                           {"notes", notes.n_runs},
                                           {"missing", report.missing}});
  } else if (!arguments.has("quiet")) {
    std::fprintf(stderr, "%s: %d of %d prompts, %lld tokens\n", escape_for_terminal(arguments.text("o")).c_str(),
                 report.n_runs, report.n_prompts, static_cast<long long>(report.n_tokens));
  }
  return 0;
}

}  // namespace

extern const CommandSpec merge_command = {
    "merge",
    "SHARD... -o FILE [--copy]",
    "merge the shards of a capture into one trace",
    "Runs are in the order of their prompts. FILE contains the small data and refers to the large data with virtual "
    "datasets, so the shards must stay in its folder (you may move the folder); with --copy it contains all data. "
    "Every run is checked, and notes of the shards are merged too. Shards of different models, options or prompts, "
    "and missing or duplicate prompts, are errors.",
    "  kvscope merge traces/shard-*.h5 -o traces/all.h5",
    {1, 100000},
    kMergeOptions,
    merge};

}  // namespace kvscope::app
