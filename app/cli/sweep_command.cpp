// kvscope sweep: a recipe's policies on the same texts and questions, as one study.

#include <cstdio>
#include <filesystem>

#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/studies/sweep/sweep_files.h"
#include "app/studies/sweep/sweep_table.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_fields.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr OptionSpec kSweepOptions[] = {
    {"o", "FILE.h5", "the study to write (HDF5); also writes its table, FILE.csv"},
    {"overwrite", "", "overwrite both if they exist; existing answers are reused"},
    {"jobs", "N", "number of engines: one per GPU, or each with a share of the cores (1)"},
    {"shard", "I/N", "compute only part I of N (from 0); without --shard, the parts are joined"},
    {"answers", "FILE", "answers of a shard in another place; repeatable", true},
    {"dry-run", "", "print the points and an estimate of time and size from a first answer"},
    kEngineOption,
    kQuietOption,
    {"json", "", "one object: points with all columns, values at matched cost, status"},
};

std::string duration(double seconds) {
  if (seconds < 90) return number_text(seconds, 3) + " s";
  if (seconds < 5400) return fixed_text(seconds / 60, 1) + " min";
  return fixed_text(seconds / 3600, 1) + " h";
}

int dry_run(const SweepRun& run, const SweepJournal& journal, bool is_json) {
  const SweepPlan& plan = run.plan;
  const std::optional<SweepEstimate> found = estimate_sweep(run, journal);
  if (!found) return static_cast<int>(ExitCode::cancelled);
  const SweepEstimate& estimate = *found;
  const std::int64_t n_all = run.n_all(), n_done = run.n_done(journal);
  if (is_json) {
    ordered_json points = ordered_json::array(), measured = ordered_json::array();
    for (const SweepPoint& point : plan.points) {
      points.push_back({{"policy", point.policy}, {"gate", point.gate}, {"axes", point.axes}});
    }
    for (const SweepSample& sample : estimate.samples) {
      measured.push_back({{"group", sample.group}, {"policy", sample.policy}, {"seconds", sample.seconds}});
    }
    write_json_line(ordered_json{{"points", points},
                                 {"answers", n_all},
                                 {"done", n_done},
                                 {"seconds_of_one_engine", estimate.seconds},
                                 {"load_seconds", estimate.load_s},
                                 {"measured", measured},
                                 {"study_bytes", estimate.study_bytes},
                                 {"answers_bytes", estimate.answers_bytes}});
    return 0;
  }
  std::printf("%s (dense)\n", kDensePolicy);
  for (const SweepPoint& point : plan.points) {
    std::printf("%s%s\n", point.policy.c_str(), point.gate.empty() ? "" : (" (" + point.gate + ")").c_str());
  }
  std::printf("%zu points, %lld answers, %lld already computed\n", plan.points.size() + 1,
              static_cast<long long>(n_all), static_cast<long long>(n_done));
  for (const SweepSample& sample : estimate.samples) {
    std::printf("measured: %s under %s: %s per answer\n", sample.group.c_str(), sample.policy.c_str(),
                duration(sample.seconds).c_str());
  }
  std::printf("estimate: %s with one engine, of which %s is loading the model %zu times; %s MB study, %s MB answers\n",
              duration(estimate.seconds).c_str(),
              duration(estimate.load_s * static_cast<double>(plan.groups.size())).c_str(), plan.groups.size(),
              number_text(estimate.study_bytes / 1e6, 2).c_str(), number_text(estimate.answers_bytes / 1e6, 2).c_str());
  return 0;
}

void say(const Arguments& arguments, const std::string& line) {
  if (!arguments.has("quiet")) std::fprintf(stderr, "%s\n", escape_for_terminal(line).c_str());
}

/// What was done of a sweep, or a shard of it, that made no study.
int report_part(const Arguments& arguments, const SweepRun& run, const SweepJournal& journal, const fs::path& answers,
                bool is_whole) {
  const bool is_json = arguments.has("json");
  const std::int64_t n_done = run.n_done(journal), n_all = run.n_all();
  const char* status = is_whole ? "complete" : "cancelled";
  if (is_json) {
    write_json_line(ordered_json{{"answers", answers.string()}, {"done", n_done}, {"of", n_all}, {"status", status}});
  }
  const std::string next =
      is_whole ? "; the same command without --shard joins all parts" : "; run the same command to continue";
  say(arguments, answers.string() + ": " + std::to_string(n_done) + " of " + std::to_string(n_all) + " answers" + next);
  return static_cast<int>(is_whole ? ExitCode::done : ExitCode::cancelled);
}

int sweep(const Arguments& arguments) {
  const bool is_dry = arguments.has("dry-run");
  if (!is_dry && !arguments.has("o")) usage_error("kvscope sweep", "no -o FILE.h5", "", "give the study to write");
  const SweepPlan plan = plan_sweep(arguments.positionals()[0], arguments.has("engine"));
  const SweepRun run{.engine = engine_options(arguments),
                     .plan = plan,
                     .jobs = static_cast<int>(arguments.integer("jobs", 1, 1, 1024)),
                     .shard = parse_shard(arguments.text("shard", "0/1"))};
  const fs::path study = arguments.text("o");
  const SweepFiles files{.recipe = arguments.positionals()[0], .study = study, .overwrite = arguments.has("overwrite")};
  fs::path own;
  std::vector<fs::path> others;
  if (!study.empty()) {
    check_sweep_targets(files, plan);
    own = journal_path(study, run.shard);
    others = other_journals(study, own);
  }
  for (const std::string& file : arguments.texts("answers")) others.emplace_back(file);
  SweepJournal journal(own, others, plan);
  if (!study.empty()) check_sweep_table(files, run, journal);
  if (is_dry) return dry_run(run, journal, arguments.has("json"));

  bool is_whole = false;
  try {
    is_whole = answer_all(run, journal);
  } catch (const Error&) {
    std::error_code error;
    if (fs::exists(own, error)) report_part(arguments, run, journal, own, false);
    throw;
  }
  if (!is_whole || run.shard.of > 1) return report_part(arguments, run, journal, own, is_whole);
  const StudyTable table = sweep_table_of(plan, journal);
  write_sweep(files, table);
  if (arguments.has("json")) {
    ordered_json result = sweep_json(table);
    result["study"] = study.string();
    result["status"] = "complete";
    write_json_line(result);
  } else {
    std::fputs(sweep_text(table).c_str(), stdout);
  }
  std::error_code error;  // of a sweep that shards have answered there is no file of its own
  say(arguments, study.string() + ": " + std::to_string(plan.points.size() + 1) + " points, " +
                     std::to_string(run.n_all()) + " answers" +
                     (fs::exists(own, error) ? ", kept in " + own.string() : ""));
  return 0;
}

}  // namespace

extern const CommandSpec sweep_command = {
    "sweep",
    "RECIPE.json -o FILE.h5 [options]",
    "run many policies on the same texts and questions: fronts, knees, matched cost",
    "RECIPE is a list or grid of policies with the texts to read and the tasks to ask (docs/reference/studies.md). "
    "The dense policy is always included. Every answer is saved in FILE.h5.answers at once; if a sweep stops, run "
    "the same command to continue.",
    "  kvscope sweep samples/recipes/sweep-smollm2.json --dry-run\n"
    "  kvscope sweep samples/recipes/sweep-smollm2.json -o sweep.h5",
    {1, 1},
    kSweepOptions,
    sweep};

}  // namespace kvscope::app
