// kvscope sweep: a recipe's policies on the same texts and questions, as one study.

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "app/cli/arguments.h"
#include "app/cli/capture_plan.h"
#include "app/cli/engine_job.h"
#include "app/cli/output.h"
#include "app/cli/sweep_run.h"
#include "app/cli/sweep_table.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_fields.h"
#include "engine/core/support/json_file.h"
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

/// All that is read for the study, and must not be written over.
std::vector<fs::path> inputs_of(const Arguments& arguments, const SweepPlan& plan) {
  std::vector<fs::path> inputs(plan.request.texts.begin(), plan.request.texts.end());
  inputs.emplace_back(arguments.positionals()[0]);
  if (!plan.request.filler.empty()) inputs.emplace_back(plan.request.filler);
  return inputs;
}

fs::path table_path(const fs::path& study) { return fs::path(study).replace_extension(".csv"); }

/// What a kill between the renames of the two files leaves: the table of these answers, to the byte, and no study. Any other
/// table is somebody's.
bool is_left_table(const fs::path& study, const StudyTable& table) {
  std::error_code error;
  const std::string text = study_csv(table);
  return !fs::exists(study, error) && fs::file_size(table_path(study), error) == text.size() && !error &&
         read_file(table_path(study), text.size()) == text;
}

/// What stands in the way of one of the files says so before anything is asked.
void check_targets(const Arguments& arguments, const fs::path& study, const SweepPlan& plan) {
  if (study.extension() != ".h5") {
    usage_error("-o", in_quotes(study.string()), "a name that ends in .h5");
  }
  const std::vector<fs::path> inputs = inputs_of(arguments, plan);
  writable_target(study, arguments.has("overwrite"), inputs, kOverwriteHint);
  std::error_code error;
  const bool may_be_left = !fs::exists(study, error) && fs::exists(journal_path(study, 0, 1), error);
  writable_target(table_path(study), arguments.has("overwrite") || may_be_left, inputs, kOverwriteHint);
}

StudyTable table_of(const SweepPlan& plan, const SweepJournal& journal) {
  return sweep_table(plan, journal, kv_bytes_of_token(plan, journal));
}

/// The same of a table beside which there are answers, once these are read.
void check_table(const SweepRun& run, const SweepJournal& journal, const fs::path& study) {
  std::error_code error;
  if (run.arguments.has("overwrite") || !fs::exists(table_path(study), error)) return;
  const bool is_whole = run.n_shards == 1 && run.n_done(journal) == run.n_all();
  if (!is_whole || !is_left_table(study, table_of(run.plan, journal)))
    writable_target(table_path(study), false, {}, kOverwriteHint);
}

void write_both(const Arguments& arguments, const fs::path& path, const StudyTable& table) {
  const std::string bytes = study_bytes(table, path.string());
  const bool replace = arguments.has("overwrite");
  AtomicFile csv(table_path(path), replace || is_left_table(path, table)), study(path, replace);
  csv.write(study_csv(table));
  study.write(bytes);
  AtomicFile* files[] = {&csv, &study};
  commit_together(files);
}

std::string duration(double seconds) {
  if (seconds < 90) return number_text(seconds, 3) + " s";
  if (seconds < 5400) return fixed_text(seconds / 60, 1) + " min";
  return fixed_text(seconds / 3600, 1) + " h";
}

/// What a line of answers takes: all numbers with 17 digits.
double bytes_of_answers(const SweepPlan& plan, std::int64_t n) {
  EvalAnswer answer{.item = plan.items(plan.groups[0])[0],
                    .policy = plan.points.empty() ? "" : plan.points.back().policy};
  for (double* number : {&answer.nll, &answer.density, &answer.cache_tokens, &answer.seconds}) *number = 1.0 / 3;
  return static_cast<double>(n) * (static_cast<double>(json_of_fields(answer).dump().size()) + 40);
}

int dry_run(const SweepRun& run, const SweepJournal& journal) {
  const SweepPlan& plan = run.plan;
  double load_s = 0;
  const std::vector<SweepSample> samples = measure_samples(run, load_s);
  if (samples.empty()) return static_cast<int>(ExitCode::cancelled);
  const std::int64_t n_all = run.n_all(), n_done = run.n_done(journal);
  double seconds = 0;
  for (const SweepSample& sample : samples) seconds += sample.seconds * static_cast<double>(sample.n);
  seconds =
      seconds * static_cast<double>(n_all - n_done) / static_cast<double>(std::max<std::int64_t>(1, plan.n_answers())) +
      load_s * static_cast<double>(plan.groups.size());
  const auto study_size = static_cast<double>(study_bytes(sweep_table(plan, journal, 0), "study").size());
  if (run.arguments.has("json")) {
    ordered_json points = ordered_json::array(), measured = ordered_json::array();
    for (const SweepPoint& point : plan.points) {
      points.push_back({{"policy", point.policy}, {"gate", point.gate}, {"axes", point.axes}});
    }
    for (const SweepSample& sample : samples) {
      measured.push_back({{"group", sample.group}, {"policy", sample.policy}, {"seconds", sample.seconds}});
    }
    write_json_line(ordered_json{{"points", points},
                                 {"answers", n_all},
                                 {"done", n_done},
                                 {"seconds_of_one_engine", seconds},
                                 {"load_seconds", load_s},
                                 {"measured", measured},
                                 {"study_bytes", study_size},
                                 {"answers_bytes", bytes_of_answers(plan, n_all)}});
    return 0;
  }
  std::printf("%s (dense)\n", kDensePolicy);
  for (const SweepPoint& point : plan.points) {
    std::printf("%s%s\n", point.policy.c_str(), point.gate.empty() ? "" : (" (" + point.gate + ")").c_str());
  }
  std::printf("%zu points, %lld answers, %lld already computed\n", plan.points.size() + 1,
              static_cast<long long>(n_all), static_cast<long long>(n_done));
  for (const SweepSample& sample : samples) {
    std::printf("measured: %s under %s: %s per answer\n", sample.group.c_str(), sample.policy.c_str(),
                duration(sample.seconds).c_str());
  }
  std::printf("estimate: %s with one engine, of which %s is loading the model %zu times; %s MB study, %s MB answers\n",
              duration(seconds).c_str(), duration(load_s * static_cast<double>(plan.groups.size())).c_str(),
              plan.groups.size(), number_text(study_size / 1e6, 2).c_str(),
              number_text(bytes_of_answers(plan, n_all) / 1e6, 2).c_str());
  return 0;
}

void say(const Arguments& arguments, const std::string& line) {
  if (!arguments.has("quiet")) std::fprintf(stderr, "%s\n", escape_for_terminal(line).c_str());
}

/// What was done of a sweep, or a shard of it, that made no study.
int report_part(const SweepRun& run, const SweepJournal& journal, const fs::path& answers, bool is_whole) {
  const std::int64_t n_done = run.n_done(journal), n_all = run.n_all();
  const char* status = is_whole ? "complete" : "cancelled";
  if (run.arguments.has("json")) {
    write_json_line(ordered_json{{"answers", answers.string()}, {"done", n_done}, {"of", n_all}, {"status", status}});
  }
  const std::string next =
      is_whole ? "; the same command without --shard joins all parts" : "; run the same command to continue";
  say(run.arguments,
      answers.string() + ": " + std::to_string(n_done) + " of " + std::to_string(n_all) + " answers" + next);
  return static_cast<int>(is_whole ? ExitCode::done : ExitCode::cancelled);
}

int sweep(const Arguments& arguments) {
  const bool is_dry = arguments.has("dry-run");
  if (!is_dry && !arguments.has("o")) usage_error("kvscope sweep", "no -o FILE.h5", "", "give the study to write");
  const SweepPlan plan = plan_sweep(arguments.positionals()[0], arguments.has("engine"));
  const Shard shard = parse_shard(arguments.text("shard", "0/1"));
  const SweepRun run{.arguments = arguments,
                     .plan = plan,
                     .jobs = static_cast<int>(arguments.integer("jobs", 1, 1, 1024)),
                     .shard = shard.index,
                     .n_shards = shard.of};
  const fs::path study = arguments.text("o");
  fs::path own;
  std::vector<fs::path> others;
  if (!study.empty()) {
    check_targets(arguments, study, plan);
    own = journal_path(study, run.shard, run.n_shards);
    others = other_journals(study, own);
  }
  for (const std::string& file : arguments.texts("answers")) others.emplace_back(file);
  SweepJournal journal(own, others, plan);
  if (!study.empty()) check_table(run, journal, study);
  if (is_dry) return dry_run(run, journal);

  bool is_whole = false;
  try {
    is_whole = answer_all(run, journal);
  } catch (const Error&) {
    std::error_code error;
    if (fs::exists(own, error)) report_part(run, journal, own, false);
    throw;
  }
  if (!is_whole || run.n_shards > 1) return report_part(run, journal, own, is_whole);
  const StudyTable table = table_of(plan, journal);
  write_both(arguments, study, table);
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
