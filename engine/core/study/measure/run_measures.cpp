#include "engine/core/study/measure/run_measures.h"

#include <iterator>
#include <limits>

#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/study/measure/retention_metrics.h"

namespace kvscope {
namespace {

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

constexpr RunMeasureInfo kRunMeasureInfos[] = {
    {RunMeasure::nll_answer, "nll_answer", "NLL of the answer", "NLL answer", "nats/token",
     "mean over the tokens of the run's answer"},
    {RunMeasure::nll_text, "nll_text", "NLL of the text", "NLL text", "nats/token",
     "mean over all tokens that have a probability, prompt and answer"},
    {RunMeasure::above_chance, "above_chance", "recall above chance", "above chance", "",
     "(recall - chance) / (1 - chance) over the whole run, by the run's own oracle: 0 for a random choice, 1 for the "
     "oracle's choice"},
    {RunMeasure::cache_size, "cache_size", "normalised cache size", "cache size", "",
     "tokens held / tokens read, including sinks and window; mean over heads and queries"},
    {RunMeasure::cache_size_end, "cache_size_end", "normalised cache size at the end", "at the end", "",
     "tokens held / tokens read after the last query, including sinks and window; mean over heads"},
    {RunMeasure::cache_bytes, "cache_bytes", "cache after the last query", "bytes", "bytes",
     "keys and values that all heads hold after the last query"},
    {RunMeasure::ms_per_token, "ms_per_token", "time per token", "ms/token", "ms",
     "decoding time with all recording on (not a benchmark)"},
    {RunMeasure::tokens, "tokens", "tokens", "tokens", "", "prompt and answer"}};
static_assert(std::size(kRunMeasureInfos) == kRunMeasures);

double cache_bytes(const RunRecord& run) {
  const std::int64_t token = run.model.bytes_of_token();
  if (token == 0) return kNotKnown;
  if (run.evict_at.empty() || run.queries() == 0) return kNotKnown;
  std::int64_t held = 0;
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) {
      const auto& row = run.evict_at.row(layer, head);
      for (std::int32_t t = 0; t < run.queries() && t < std::ssize(row); ++t)
        held += visible(run.queries() - 1, t, row[static_cast<std::size_t>(t)]);
    }
  }
  return static_cast<double>(held * token);
}

}  // namespace

std::span<const RunMeasureInfo> run_measures() { return kRunMeasureInfos; }

const RunMeasureInfo& info_of(RunMeasure measure) { return kRunMeasureInfos[static_cast<std::size_t>(measure)]; }

std::string label_of(RunMeasure measure) {
  const RunMeasureInfo& info = info_of(measure);
  return std::string(info.title) + (info.units.empty() ? "" : " (" + std::string(info.units) + ")");
}

double ms_per_token(const RunRecord& run) {
  return run.timings.decode_steps > 0 ? 1000 * run.timings.decode_s / run.timings.decode_steps : kNotKnown;
}

RunMeasures measure_run(const RunRecord& run) {
  RunMeasures m;
  const std::int32_t last = run.queries() - 1;
  const auto set = [&](RunMeasure measure, double value) { m.values[static_cast<std::size_t>(measure)] = value; };
  m.oracle = mean_of(Oracle(run));
  m.cached = tokens_in_cache(run, last);
  set(RunMeasure::nll_answer, run.n_tokens() > run.prompt_len ? answer_nll(run) : kNotKnown);
  set(RunMeasure::nll_text, text_nll(run));
  set(RunMeasure::above_chance, m.oracle.n > 0 ? m.oracle.above_chance() : kNotKnown);
  set(RunMeasure::cache_size, mean_cache_size(run));
  set(RunMeasure::cache_size_end, mean(head_metric(run, Metric::cache_share, last)));
  set(RunMeasure::cache_bytes, cache_bytes(run));
  set(RunMeasure::ms_per_token, ms_per_token(run));
  set(RunMeasure::tokens, run.n_tokens());
  return m;
}

std::string why_not_measured(const RunRecord& run, RunMeasure measure) {
  if (run.status == RunStatus::running) return "The run is in progress.";
  if (run.n_tokens() == 0) return "The run has no tokens.";
  switch (measure) {
    case RunMeasure::nll_answer:
      if (run.n_tokens() <= run.prompt_len) return "The run has no answer: its text was only read.";
      [[fallthrough]];
    case RunMeasure::nll_text:
      return "The run recorded no probabilities.";
    case RunMeasure::above_chance:
      return run.future_mass.empty() ? "No oracle: recall needs future attention, which this run did not record."
                                     : "No choice was needed, so there is no recall.";
    case RunMeasure::cache_bytes:
      if (run.model.bytes_of_token() == 0) return "The run did not record the number format of its cache.";
      [[fallthrough]];
    case RunMeasure::cache_size:
    case RunMeasure::cache_size_end:
      return "The run did not record which tokens it kept.";
    case RunMeasure::ms_per_token:
      return "The run did not record the time of a decoded token.";
    case RunMeasure::tokens:
      break;
  }
  return {};
}

}  // namespace kvscope
