// kvscope export: a run of a trace, or a study, as CSV or netCDF; a run as a web page.

#include <filesystem>
#include <optional>

#include "app/cli/arguments.h"
#include "app/cli/output.h"
#include "app/page/run_page.h"
#include "app/support/trace_open.h"
#include "engine/core/study/table/export_run.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_file.h"
#include "engine/core/trace/export_netcdf.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kExportOptions[] = {
    {"o", "FILE", "file to write: .csv (one table), .nc (netCDF-4) or .html (a page of one run)"},
    {"overwrite", "", "overwrite FILE if it exists"},
    {"run", "N", "which run of the trace (0)"},
    {"what", "NAME,...",
     "for traces: lifetimes, scores, contests, tokens, metrics, output_error (.csv: lifetimes,scores,tokens; .nc: all)"},
    {"json", "", "one object: file, run, bytes"},
};

/// Nothing for a trace, and for what is neither, which is told as the trace that it should have been.
std::optional<StudyTable> study_of(const std::filesystem::path& path) {
  try {
    return read_study_if_one("/proc/self/exe", path);
  } catch (const Error& error) {
    // A study, but a damaged one; or nothing that says what the file is.
    if (!error.parts().where.empty() || error.code() != ExitCode::bad_input) throw;
    return std::nullopt;
  }
}

std::filesystem::path target_of(const Arguments& arguments) {
  const std::filesystem::path path = arguments.text("o");
  const std::string kind = path.extension();
  if (kind != ".csv" && kind != ".nc" && kind != ".html")
    usage_error("-o", path.empty() ? "not given" : in_quotes(path.string()), "a name that ends in .csv, .nc or .html");
  const std::filesystem::path inputs[] = {arguments.positionals()[0]};
  writable_target(path, arguments.has("overwrite"), inputs, kOverwriteHint);
  return path;
}

void export_study(const Arguments& arguments, const StudyTable& study, const std::filesystem::path& path) {
  for (const char* option : {"run", "what"})
    if (arguments.has(option))
      usage_error(dashed(option), "given for a study", "a trace; leave this option out for a study");
  if (path.extension() == ".html")
    usage_error("-o", in_quotes(path.string()) + " for a study", "a name that ends in .csv or .nc; a page shows a run");
  const bool replace = arguments.has("overwrite");
  if (path.extension() == ".nc") return export_netcdf(study, path, replace);
  write_file_atomic(path, study_csv(study), replace);
}

void export_page(const Arguments& arguments, const RunRecord& run, const std::filesystem::path& path) {
  if (arguments.has("what"))
    usage_error("--what", "given for a page", "a name that ends in .csv or .nc; leave this option out for a page");
  write_file_atomic(path, run_page(run, arguments.positionals()[0]), arguments.has("overwrite"));
}

void export_run(const Arguments& arguments, const RunRecord& run, const std::filesystem::path& path) {
  if (path.extension() == ".html") return export_page(arguments, run, path);
  const bool csv = path.extension() == ".csv";
  const auto parts = parse_export_parts(arguments.text(
      "what", csv ? "lifetimes,scores,tokens" : "lifetimes,scores,contests,tokens,metrics,output_error"));
  const bool replace = arguments.has("overwrite");
  csv ? export_csv(run, parts, path, replace) : export_netcdf(run, parts, path, replace);
}

int export_file(const Arguments& arguments) {
  const std::filesystem::path path = target_of(arguments), source = arguments.positionals()[0];
  const int index = static_cast<int>(arguments.integer("run", 0, 0, 1 << 30));
  nlohmann::ordered_json done = {{"file", path.string()}};
  if (const auto study = study_of(source)) {
    export_study(arguments, *study, path);
    done["points"] = study->n_points();
  } else {
    export_run(arguments, open_trace(source).load(index), path);
    done["run"] = index;
  }
  std::error_code error;  // it may be gone already
  const auto bytes = std::filesystem::file_size(path, error);
  done["bytes"] = error ? nlohmann::ordered_json() : nlohmann::ordered_json(bytes);
  if (arguments.has("json")) write_json_line(done);
  return 0;
}

}  // namespace

extern const CommandSpec export_command = {
    "export",
    "TRACE|STUDY -o FILE.csv|FILE.nc|FILE.html [--run N] [--what NAME,...]",
    "write a run or a study as CSV or netCDF, or a run as a web page",
    "CSV is in long form with a header line: layer,kv_head,token,text,evict_at,score,future_mass,eviction_verdict; "
    "cells without a value are empty. NC opens with xarray.open_dataset; it has "
    "one array per quantity, series as [layer, kv_head, token], and its attributes describe the run. evict_at is the first query position that no longer "
    "sees the token: 2147483647 means never, 2147483646 still in the window when the run ended. "
    "HTML is one page that opens in any browser of 2023 or later, without a network: tokens, maps, lifetimes and verdicts at every query. See "
    "docs/how-to/export-data.md for recipes.",
    "  kvscope export a.h5 -o a.csv\n"
    "  kvscope export a.h5 -o contests.csv --what contests\n"
    "  kvscope export a.h5 -o a.html\n"
    "  kvscope export a.h5 -o a.nc && python3 -c 'import xarray; print(xarray.open_dataset(\"a.nc\"))'",
    {1, 1},
    kExportOptions,
    export_file};

}  // namespace kvscope::app
