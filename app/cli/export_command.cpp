// kvscope export: a run of a trace as CSV or NumPy arrays.

#include <filesystem>

#include "app/cli/arguments.h"
#include "app/cli/output.h"
#include "app/process/trace_open.h"
#include "engine/core/study/export_run.h"
#include "engine/core/support/file.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kOptions[] = {
    {"o", "FILE", "what to write: .csv (one table) or .npz (arrays)"},
    {"overwrite", "", "replace it if it exists"},
    {"run", "N", "which run of the trace (0)"},
    {"what", "NAME,...",
     "lifetimes, scores, contests, tokens, metrics, output_error (.csv: lifetimes,scores; .npz: all)"},
    {"json", "", "one object: file, run, bytes"},
};

std::filesystem::path target_of(const Arguments& arguments) {
  const std::filesystem::path path = arguments.text("o");
  const auto extension = path.extension();
  if (extension != ".csv" && extension != ".npz")
    usage_error("-o", path.empty() ? "not given" : in_quotes(path.string()), "a name that ends in .csv or .npz");
  const std::filesystem::path inputs[] = {arguments.positionals()[0]};
  writable_target(path, arguments.has("overwrite"), inputs, kOverwriteHint);
  return path;
}

int export_run(const Arguments& arguments) {
  const std::filesystem::path path = target_of(arguments);
  const bool csv = path.extension() == ".csv";
  const auto parts = parse_export_parts(
      arguments.text("what", csv ? "lifetimes,scores" : "lifetimes,scores,contests,tokens,metrics,output_error"));
  const int index = static_cast<int>(arguments.integer("run", 0, 0, 1 << 30));
  const RunRecord run = open_trace(arguments.positionals()[0]).load(index);
  const bool replace = arguments.has("overwrite");
  csv ? export_csv(run, parts, path, replace) : export_npz(run, parts, path, replace);
  if (arguments.has("json")) {
    write_json_line(
        nlohmann::ordered_json{{"file", path.string()}, {"run", index}, {"bytes", std::filesystem::file_size(path)}});
  }
  return 0;
}

}  // namespace

extern const CommandSpec export_command = {
    "export",
    "TRACE -o FILE.csv|FILE.npz [--run N] [--what NAME,...]",
    "write a run as CSV or as NumPy arrays",
    "CSV is in long form, its first line names the columns: "
    "layer,kv_head,token,evict_at,score,future_mass,eviction_verdict; cells without a value are empty. NPZ has one "
    "array each, series as [layer, kv_head, token]. evict_at is the first query position that no longer sees the "
    "token: 2147483647 never, 2147483646 still in the window when the run ended.",
    "  kvscope export a.h5 -o a.csv\n"
    "  kvscope export a.h5 -o contests.csv --what contests\n"
    "  kvscope export a.h5 -o a.npz && python3 -c 'import numpy; print(*numpy.load(\"a.npz\"))'",
    {1, 1},
    kOptions,
    export_run};

}  // namespace kvscope::app
