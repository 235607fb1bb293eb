// kvscope score: teacher-forced log-probability of each token under a policy.

#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "app/cli/arguments.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "app/studies/rescore/score_attention.h"
#include "app/support/usage.h"
#include "engine/core/policy/density.h"
#include "engine/core/protocol/events.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kScoreOptions[] = {
    {"text", "TEXT", "the text"},
    {"text-file", "FILE", "the text from a file; - is stdin"},
    {"policy", "SPEC", "NAME:key=value,... (full)"},
    kBudgetsOption,
    kChunkOption,
    kOracleOption,
    kOutputErrorOption,
    {"attention", "LAYER:TOKEN,...",
     "also print the attention that each query of a full cache gives to these tokens (one more pass)"},
    {"no-dense", "", "do not read the text again under full for the difference"},
    {"summary", "", "print the lines of the whole text, without a line per token"},
    kGateOption,
    kDeviceOption,
    kDtypeOption,
    kEngineOption,
    kQuietOption,
    {"json", "",
     "one object: ids, logprobs (natural, the first is null), nll (mean, nats per token), perplexity, tokens, "
     "density (mean over heads), dense (whether no query missed a token), dense_nll, difference, chunk, policy; with "
     "a density: thresholds; if requested: oracle, recall, chance, mass_recall, output_error, attention"},
};

// Nothing if it was cancelled.
std::optional<ScoreFacts> read_text(EngineJob& job, const ScoreRequest& request) {
  const auto done = job.call(request);
  job.progress().clear();
  if (protocol::was_cancelled(done)) return {};
  return protocol::score_from_event(done);
}

double mean_density(const ScoreFacts& facts) {
  double sum = 0, n = 0;
  for (const float density : facts.density)
    if (!std::isnan(density)) sum += density, ++n;
  return sum / n;  // 0 / 0: no head has one
}

std::string how(const ScoreFacts& facts) {
  if (facts.dense) return "dense: no query missed a token";
  if (facts.chunk == 1) return "the policy acted after every token";
  return "the policy acted after every " + std::to_string(facts.chunk) + " tokens";
}

void print_quality(const ScoreQuality& quality, const ScoreRequest& request) {
  if (request.oracle && std::isnan(quality.recall)) std::printf("oracle recall: none, because no query had a choice\n");
  if (request.oracle && !std::isnan(quality.recall)) {
    std::printf("oracle recall %.4f, chance %.4f, mass recall %.4f\n", quality.recall, quality.chance,
                quality.mass_recall);
  }
  if (request.output_error && std::isnan(quality.output_error))
    std::printf("output error: none, because no query lost a token\n");
  if (!std::isnan(quality.output_error)) std::printf("output error %.5f, mean over layers\n", quality.output_error);
}

void print_tokens(const std::string& model, const ScoreFacts& facts) {
  const std::optional<Tokenizer> tokenizer = tokenizer_of(model);
  std::vector<std::vector<std::string>> rows = {{"position", "id", "logprob", "piece"}};
  for (std::size_t i = 0; i < facts.ids.size(); ++i) {
    rows.push_back({std::to_string(i), std::to_string(facts.ids[i]), format_number(facts.logprobs[i]),
                    tokenizer ? escape_for_terminal(tokenizer->piece(facts.ids[i])) : ""});
  }
  std::fputs(format_table(rows).c_str(), stdout);
}

void print_summary(const ScoreFacts& facts, std::optional<double> dense_nll, const ScoreRequest& request,
                   const std::optional<TokenAttention>& attention) {
  // Density counts tokens outside the window: a text that never left it has none.
  const double density = mean_density(facts);
  const std::string share = std::isnan(density) ? "undefined (no token left the window)" : fixed_text(density, 4);
  std::printf("nll %.6f nats per token, perplexity %.3f, density %s, %zu tokens\n", facts.nll, std::exp(facts.nll),
              share.c_str(), facts.ids.size());
  print_quality(facts.quality, request);
  if (dense_nll) std::printf("dense %.6f, difference %+.6f\n", *dense_nll, facts.nll - *dense_nll);
  std::printf("%s\npolicy %s\n", how(facts).c_str(), facts.policy.to_string().c_str());
  if (!facts.thresholds.empty()) std::printf("%s\n", describe_density(facts.policy, facts.thresholds).c_str());
  if (attention) std::fputs(attention_table(*attention).c_str(), stdout);
}

void write_json(const ScoreFacts& facts, std::optional<double> dense_nll, const ScoreRequest& request,
                const std::optional<TokenAttention>& attention) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const float value : facts.logprobs) list.push_back(number_or_null(value));
  nlohmann::ordered_json result = {{"ids", facts.ids},
                                   {"logprobs", list},
                                   {"nll", number_or_null(facts.nll)},
                                   {"perplexity", number_or_null(std::exp(facts.nll))},
                                   {"tokens", facts.ids.size()},
                                   {"density", number_or_null(mean_density(facts))},
                                   {"dense", facts.dense},
                                   {"chunk", facts.chunk},
                                   {"policy", facts.policy.to_string()}};
  if (!facts.thresholds.empty()) result["thresholds"] = facts.thresholds;
  if (request.oracle) {
    result["oracle"] = request.oracle->to_string();
    result["recall"] = number_or_null(facts.quality.recall);
    result["chance"] = number_or_null(facts.quality.chance);
    result["mass_recall"] = number_or_null(facts.quality.mass_recall);
  }
  if (request.output_error) result["output_error"] = number_or_null(facts.quality.output_error);
  if (dense_nll) {
    result["dense_nll"] = number_or_null(*dense_nll);
    result["difference"] = number_or_null(facts.nll - *dense_nll);
  }
  if (attention) result["attention"] = attention_json(*attention);
  write_json_line(result);
}

int score(const Arguments& arguments) {
  if (arguments.has("summary") && arguments.has("json"))
    usage_error("--summary", "together with --json", "only one of them");
  const std::string model_path = model_for(engine_options(arguments), arguments.positionals()[0]);
  ScoreRequest request{.text = as_text(arguments.text_or_file("text"), arguments.text("text-file", "--text")),
                       .ids = {},
                       .policy = PolicySpec::parse(arguments.text("policy", "full")),
                       .chunk = static_cast<int>(arguments.integer("chunk", 1, 1, 1 << 24))};
  request.budgets = budgets_option(arguments, request.policy);
  if (arguments.has("oracle")) request.oracle = OracleSpec::parse(arguments.text("oracle"));
  request.output_error = arguments.has("output-error");
  if (request.output_error) check_measurable(request.policy);
  std::optional<TokenAttentionRequest> looked_at;
  if (arguments.has("attention")) looked_at = attention_request(arguments.text("attention"));
  EngineJob job(engine_options(arguments));
  job.load(model_path, std::array{request.policy});
  const std::optional<ScoreFacts> facts = read_text(job, request);
  if (!facts) return static_cast<int>(ExitCode::cancelled);
  std::optional<double> dense_nll;
  if (!arguments.has("no-dense")) {
    dense_nll = facts->nll;
    if (!facts->dense) {
      ScoreRequest full = request;
      full.budgets.clear();
      full.policy = PolicySpec::parse("full");
      full.oracle.reset();
      full.output_error = false;
      const std::optional<ScoreFacts> dense = read_text(job, full);
      if (!dense) return static_cast<int>(ExitCode::cancelled);
      dense_nll = dense->nll;
    }
  }
  std::optional<TokenAttention> attention;
  if (looked_at) {
    looked_at->ids = facts->ids;
    const auto done = job.call(*looked_at);
    job.progress().clear();
    if (protocol::was_cancelled(done)) return static_cast<int>(ExitCode::cancelled);
    attention = protocol::token_attention_from_event(done);
  }
  if (arguments.has("json")) {
    write_json(*facts, dense_nll, request, attention);
  } else {
    if (!arguments.has("summary")) print_tokens(model_path, *facts);
    print_summary(*facts, dense_nll, request, attention);
  }
  return 0;
}

}  // namespace

extern const CommandSpec score_command = {
    "score",
    "MODEL --text TEXT | --text-file FILE [--policy SPEC] [--chunk N]",
    "print the log-probability of each token of a text under a policy",
    "Teacher-forced: the text is given, and from its first token the policy decides what each position can still "
    "see, as during decoding. Shares such as keep=20% refer to the whole text. Policies that were published with a "
    "dense prompt act here too: TOVA and H2O after every token, SnapKV and Expected Attention whenever the cache is "
    "over the budget, Quest at every query. With --chunk N they act after every N tokens, and the queries of a chunk "
    "see the whole chunk. Prints mean NLL, perplexity, density, and the difference from a dense cache on the same "
    "tokens; --summary prints these alone. Special tokens in the text become their ids. A gate's read= needs --chunk 1.",
    "  kvscope score samples/models/kvscope-tiny --text-file a.txt --policy streaming:window=171\n"
    "  kvscope score samples/models/kvscope-tiny --text-file a.txt --policy snapkv:keep=20% --chunk 16",
    {1, 1},
    kScoreOptions,
    score};

}  // namespace kvscope::app
