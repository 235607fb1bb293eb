// kvscope hybrid: which heads may become local in a model, at which share and at which cost (SP-KV section 4).

#include <cmath>
#include <cstdio>

#include "app/cli/engine_options.h"
#include "app/cli/hybrid_options.h"
#include "app/cli/output.h"
#include "app/studies/hybrid/hybrid_export.h"
#include "engine/core/trace/study_file.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kHybridOptions[] = {
    {"texts", "FILE", "text to measure on; repeatable", true},
    {"pieces", "N", "pieces of each text (8)"},
    {"length", "N", "tokens of a piece (512)"},
    {"chunk", "N", "the policy acts after every N tokens (16)"},
    {"signal", "density|oracle|output-error|nll|nll-alone|file:FOLDER", "what orders the heads (density)"},
    {"policy", "SPEC", "policy of the gate, for density and coverage (the first with a gate)"},
    {"strategies", "LIST", "from a, b, c, d, capped, layers, greedy, budgets (a,b,c,d)"},
    {"shares", "LIST", "shares of the heads (10%,20%,30%,40%,50%), besides those of a and b"},
    {"bytes", "N", "one more share: as many heads as fit in N bytes at --context"},
    {"context", "N", "context length for the memory estimate, in tokens (the model's)"},
    {"seeds", "LIST", "seeds of c (0,1,2)"},
    {"cap", "N", "for capped: maximum heads per layer (the smallest that has room)"},
    {"sinks", "N", "sinks of local heads (the policy's, else 4)"},
    {"window", "N", "window of local heads (the policy's, else 128)"},
    {"again", "on|off", "measure the signal again under d's heads, and choose by it (on)"},
    {"greedy-pieces", "N", "number of pieces that greedy uses (1)"},
    {"tasks", "NAME,...", "also decode answers (docs/reference/tasks.md), of --length tokens"},
    {"questions", "N", "questions of each task (50)"},
    {"export", "FORMAT:PATH", "write the heads of --point as kvscope heads does; repeatable", true},
    {"point", "LABEL", "d:27, d:30%, c:27:1 (with the seed), d-again:27, ..."},
    {"o", "FILE", "the study (HDF5); an unfinished one continues from FILE.journal"},
    {"journal", "FILE", "journal file to use instead, kept afterwards"},
    {"overwrite", "", "overwrite existing files"},
    {"dry-run", "", "only print the number of passes and an estimate of the time"},
    kGateOption,
    kDeviceOption,
    kDtypeOption,
    kEngineOption,
    kQuietOption,
    {"json", "", "one object: facts, points, ranking, kendall_tau"},
};

/// The words that decide the table: with them the study is made again.
nlohmann::ordered_json request_json(const Arguments& arguments) {
  nlohmann::ordered_json request = {{"command", "hybrid"}, {"model", arguments.positionals()[0]}};
  for (const char* name :
       {"pieces", "length", "chunk", "signal", "policy", "strategies", "shares", "bytes", "context", "seeds", "cap",
        "sinks", "window", "again", "greedy-pieces", "tasks", "questions", "device", "dtype"})
    if (arguments.has(name)) request[name] = arguments.text(name);
  for (const char* name : {"texts", "gate"})
    if (arguments.has(name)) request[name] = arguments.texts(name);
  return request;
}

int tell_cost(HybridEngine& engine, int n_passes) {
  const double before = engine.seconds();
  engine.dense_nll(0);
  const double seconds = engine.seconds() - before;
  std::printf(
      "%d passes over a piece; a dense one takes %.2f s here, so about %.0f min, plus one load of heads per choice\n",
      n_passes, seconds, std::ceil(n_passes * seconds / 60));
  return 0;
}

int hybrid(const Arguments& arguments) {
  const EngineJobOptions options = engine_options(arguments);
  const HybridPlan plan = hybrid_plan(arguments, options);
  const TextPieces pieces = cut_pieces(plan);
  HybridEngine engine(options, plan, pieces);
  const std::vector<int> counts = head_counts(plan, engine.shape(), engine.cache());
  std::vector<HybridPoint> points = planned_points(plan, engine.shape(), counts);
  const std::string label = plan.point.empty() ? "" : label_of(plan.point, points, engine.shape());
  if (plan.signal == SignalKind::file) signal_of_file(plan, engine.shape());  // before anything is written
  const int n = n_passes(plan, engine.shape(), engine.n_pieces(), points);
  if (plan.dry_run) return tell_cost(engine, n);
  HybridJournal journal(plan.journal, engine.facts());
  engine.begin(journal, n);
  const HybridStudy study = run_hybrid(plan, engine, std::move(points));
  engine.clear_progress();
  const StudyTable table = hybrid_table(study, engine, request_json(arguments), hybrid_facts(plan, engine));
  const std::vector<std::filesystem::path> inputs(plan.texts.begin(), plan.texts.end());
  write_study(plan.output, table, plan.overwrite, inputs);
  if (!plan.keep_journal) journal.remove();
  if (!label.empty()) {
    for (const std::string& loss : export_point(plan, engine, study, table, label))
      std::fprintf(stderr, "warning: %s\n", loss.c_str());
  }
  if (arguments.has("json")) {
    write_json_line(hybrid_json(table));
  } else {
    std::fputs(hybrid_text(table).c_str(), stdout);
  }
  return 0;
}

}  // namespace

extern const CommandSpec hybrid_command = {
    "hybrid",
    "MODEL --texts FILE -o h.h5 [--signal NAME] [--strategies LIST] [--shares LIST]",
    "measure which heads may become local, at which share and cost (SP-KV section 4)",
    "Ranks the KV heads by a signal, makes those of each strategy global and the others local, and reads the texts "
    "under each choice as kvscope score does. Definitions: docs/reference/studies.md.",
    "  kvscope hybrid smollm2-135m --texts a.txt --policy wg-kv:window=128,sinks=4 -o h.h5",
    {1, 1},
    kHybridOptions,
    hybrid};

}  // namespace kvscope::app
