// kvscope score: teacher-forced log-probability of each token under a policy.

#include <cmath>
#include <cstdio>

#include "app/cli/arguments.h"
#include "app/cli/engine_job.h"
#include "app/cli/output.h"
#include "app/cli/run_options.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kOptions[] = {
    {"text", "TEXT", "the text"},
    {"text-file", "FILE", "the text from a file; - is stdin"},
    {"policy", "SPEC", "NAME:key=value,... (full)"},
    kGateOption,
    kDeviceOption,
    kDtypeOption,
    kEngineOption,
    kQuietOption,
    {"json", "", "one object: ids, logprobs (natural, the first is null), nll (mean, nats per token)"},
};

void print_table(const std::string& model, const std::vector<std::int32_t>& ids, const std::vector<float>& logprobs,
                 double nll) {
  const std::optional<Tokenizer> tokenizer = tokenizer_of(model);
  std::vector<std::vector<std::string>> rows = {{"position", "id", "logprob", "piece"}};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    rows.push_back({std::to_string(i), std::to_string(ids[i]), format_number(logprobs[i]),
                    tokenizer ? escape_for_terminal(tokenizer->piece(ids[i])) : ""});
  }
  std::fputs(format_table(rows).c_str(), stdout);
  std::printf("nll %.6f nats per token, perplexity %.3f\n", nll, std::exp(nll));
}

int score(const Arguments& arguments) {
  const std::string model_path = arguments.positionals()[0];
  check_model_path(arguments, model_path);
  const std::string text = arguments.text_or_file("text");
  const PolicySpec policy = PolicySpec::parse(arguments.text("policy", "full"));
  EngineJob job(arguments);
  job.load(model_path);
  const auto done = job.call(protocol::ScoreRequest{.text = text, .ids = {}, .policy = policy});
  job.progress().clear();
  if (done.value("status", "") == "cancelled") return static_cast<int>(ExitCode::cancelled);
  const auto ids = protocol::unpack_i32(done, "ids");
  const auto logprobs = protocol::unpack_f32(done, "logprobs");
  if (logprobs.size() != ids.size()) {
    throw Error({.code = ExitCode::internal,
                 .file = "engine",
                 .found = std::to_string(logprobs.size()) + " log-probabilities",
                 .expected = std::to_string(ids.size())});
  }
  const double nll = done.at("nll").is_number() ? done["nll"].get<double>() : std::nan("");
  if (arguments.has("json")) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const float value : logprobs) list.push_back(number_or_null(value));
    write_json_line(nlohmann::ordered_json{
        {"ids", ids}, {"logprobs", list}, {"nll", number_or_null(nll)}, {"policy", policy.to_string()}});
  } else {
    print_table(model_path, ids, logprobs, nll);
  }
  return 0;
}

}  // namespace

extern const CommandSpec score_command = {
    "score",
    "MODEL --text TEXT | --text-file FILE [--policy SPEC]",
    "log-probability of each token of a text under a policy",
    "Teacher-forced: the text is given, the policy decides what each position may still see. Special tokens in the "
    "text become their ids.",
    "  kvscope score samples/models/kvscope-tiny --text-file a.txt --policy streaming:window=171",
    {1, 1},
    kOptions,
    score};

}  // namespace kvscope::app
