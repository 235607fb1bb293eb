// kvscope hybrid: which heads may become local in a model, at which share and at which cost (SP-KV section 4).

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/cli/hybrid_table.h"
#include "app/cli/output.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/text.h"
#include "engine/core/support/version.h"
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

nlohmann::ordered_json facts_json(const HybridPlan& plan, const HybridEngine& engine) {
  nlohmann::ordered_json facts = engine.facts();
  facts["program"] = std::string(version()) + " (" + std::string(git_revision()) + ")";
  facts["signal"] = plan.signal_text;
  facts["context"] = engine.cache().context;
  facts["layers"] = engine.shape().n_layers;
  facts["kv_heads"] = engine.shape().n_kv_heads;
  if (plan.greedy) facts["greedy_pieces"] = plan.greedy_pieces;
  const std::optional<std::string> why_not = plan.again ? why_not_again(plan.signal) : "it was not requested";
  facts["again"] = why_not ? "not measured: " + *why_not : "measured";
  return facts;
}

/// The one place where the heads of a study leave it. What they come from stands in the file where the format has room,
/// else beside it.
void export_point(const HybridPlan& plan, const HybridEngine& engine, const HybridStudy& study, const StudyTable& table,
                  const std::string& label) {
  const auto& labels = table.texts("point", plan.output);
  const auto row = static_cast<std::size_t>(std::ranges::find(labels, label) - labels.begin());
  const HybridPoint& point = study.points[row];
  const ModelInfo& model = engine.model();
  const nlohmann::ordered_json facts = {{"point", point_json(table, row)},
                                        {"facts", nlohmann::ordered_json::parse(table.facts)}};
  const HeadChoice choice{.selection = {.n_layers = model.n_layers,
                                        .n_kv_heads = model.n_kv_heads,
                                        .full = std::vector<float>(point.heads.begin(), point.heads.end()),
                                        .coverage = table.numbers("coverage", plan.output)[row],
                                        .rule = point.strategy},
                          .sizes = {engine.cache().n_sink, engine.cache().window},
                          .origin = {.model = model.name,
                                     .weights_hash = model.weights_hash,
                                     .signal = plan.signal_text,
                                     .n_runs = engine.n_pieces(),
                                     .value = study.signal.mean(),
                                     .facts = facts.dump()},
                          .group_size = model.n_kv_heads > 0 ? model.n_heads / model.n_kv_heads : 0};
  for (const std::string& loss : export_heads(plan.exports, choice, plan.overwrite))
    std::fprintf(stderr, "warning: %s\n", loss.c_str());
  for (const HeadTarget& target : plan.exports) {
    if (target.format->path == "FOLDER")
      write_file_atomic(target.path / "study.json", facts.dump(2) + "\n", plan.overwrite);
  }
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
  const HybridPlan plan = hybrid_plan(arguments);
  const TextPieces pieces = cut_pieces(plan);
  HybridEngine engine(arguments, plan, pieces);
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
  const StudyTable table = hybrid_table(study, engine, request_json(arguments), facts_json(plan, engine));
  const std::vector<std::filesystem::path> inputs(plan.texts.begin(), plan.texts.end());
  write_study(plan.output, table, plan.overwrite, inputs);
  if (!plan.keep_journal) journal.remove();
  if (!label.empty()) export_point(plan, engine, study, table, label);
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
