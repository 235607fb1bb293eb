#include "engine/jobs/bench/bench.h"

#include <algorithm>

#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "engine/jobs/bench/shapes.h"

namespace kvscope::engine {
namespace {

using nlohmann::json;

/// The delay of a scorer with a memory that these policies could use.
int scorer_window(const std::vector<std::string>& policies, const char* default_policy, int n_positions) {
  PolicySpec spec = PolicySpec::parse(default_policy);
  for (const std::string& text : policies) {
    const PolicySpec given = PolicySpec::parse(text);
    if (std::ranges::count(policy_of(given).info.gates, "kvpop_mlstm") > 0) {
      spec = given;
      break;
    }
  }
  return spec.geometry(n_positions).window;
}

struct NamedBench {
  const char* name;
  json (*run)(const JsonObject& args, JobContext& context);
};
constexpr NamedBench kBenches[] = {
    {"decode", decode_bench},   {"batch", batch_bench},     {"ragged", ragged_bench},
    {"policy", policy_bench},   {"prefill", prefill_bench}, {"oracle", oracle_bench},
    {"capture", capture_bench}, {"score", score_bench},     {"scoreboard", scoreboard_bench}};

}  // namespace

BenchArgs::BenchArgs(const JsonObject& args, int default_tokens, int default_repeats)
    : prompt_tokens(static_cast<int>(args.integer_or("prompt_tokens", default_tokens, 1, kMaxBenchTokens))),
      repeats(static_cast<int>(args.integer_or("repeats", default_repeats, 1, 1000))),
      policies(args.texts("policy")) {}

LoadedModel load_bench_model(const JsonObject& args, JobContext& context, int n_positions, const char* default_policy) {
  const LoadOptions options{args.text_or("device", "auto"), args.text_or("dtype", "auto"), args.texts("gates")};
  if (args.has("shape")) {
    ModelConfig config = shape_config(args.text("shape"));
    config.max_positions = std::max(config.max_positions, n_positions);
    return LoadedModel::random(config, 1, options,
                               scorer_window(args.texts("policy"), default_policy, config.max_positions));
  }
  LoadedModel model = LoadedModel::load(args.text("model"), options, [&](std::int64_t done, std::int64_t total) {
    if (context.progress) context.progress("load", static_cast<double>(done), static_cast<double>(total), "");
  });
  if (n_positions <= model.config().max_positions) return model;
  throw Error({.code = ExitCode::usage,
               .file = "bench",
               .found = std::to_string(n_positions) + " tokens: the prompt and what follows it",
               .expected = "at most " + std::to_string(model.config().max_positions) + ", the model's context",
               .hint = "use fewer --prompt-tokens, --max-tokens or --repeats"});
}

RunRequest bench_request(const LoadedModel& model, const std::string& policy, int n_tokens, int max_tokens, int index) {
  RunRequest request;
  request.prompt_ids.resize(static_cast<std::size_t>(n_tokens));
  std::uint64_t state = 1 + static_cast<std::uint64_t>(index);
  for (std::int32_t& id : request.prompt_ids) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    id = static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(model.config().vocab_size));
  }
  request.policy = PolicySpec::parse(policy);
  request.max_tokens = max_tokens;
  request.stop_at_eos = false;
  return request;
}

std::vector<std::string> default_policies(const LoadedModel& model, int prompt_tokens) {
  std::vector<std::string> out{"full"};
  if (const int delay = model.scorer_delay(); delay > 0) {
    const int budget = std::max(prompt_tokens / 4, 4 + delay + 16);  // never so few that there is no long-range slot
    out.push_back("kvpop:budget=" + std::to_string(budget) + ",sinks=4,window=" + std::to_string(delay));
  }
  return out;
}

bool is_cancelled(const JobContext& context) { return context.cancelled != nullptr && *context.cancelled; }

std::vector<BenchCase> bench_cases(const BenchArgs& args, const std::vector<std::string>& usual, int batch) {
  std::vector<BenchCase> cases;
  for (const std::string& policy : args.policies.empty() ? usual : args.policies) cases.push_back({policy, batch});
  return cases;
}

json bench_rows(const LoadedModel& model, const BenchArgs& args, const std::vector<BenchCase>& cases,
                const JobContext& context, json facts, const std::function<json(const BenchCase& one)>& bench_case,
                std::string (*row_text)(const json& row)) {
  json rows = json::array();
  for (const BenchCase& one : cases) {
    if (context.progress) {
      context.progress("bench", static_cast<double>(rows.size()), static_cast<double>(cases.size()), one.policy);
    }
    json row = is_cancelled(context) ? json() : bench_case(one);
    if (row.is_null()) return {{"status", "cancelled"}, {"rows", rows}};
    if (context.row) context.row(row_text(row), row);
    rows.push_back(std::move(row));
  }
  facts.update({{"status", "complete"},
                {"model", model.info().name},
                {"device", model.info().device},
                {"dtype", model.info().dtype},
                {"repeats", args.repeats},
                {"rows", std::move(rows)}});
  return facts;
}

json bench_job(const json& args_json, JobContext& context) {
  const JsonObject args(args_json, "bench");
  const std::string name = args.text_or("name", "decode");
  std::string names;
  for (const NamedBench& bench : kBenches) {
    if (bench.name == name) return bench.run(args, context);
    names += (names.empty() ? "" : ", ") + std::string(bench.name);
  }
  throw Error({.code = ExitCode::usage, .file = "bench", .found = name, .expected = "one of " + names});
}

}  // namespace kvscope::engine
