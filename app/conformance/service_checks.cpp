// Services that are declared are answered. Others are refused with one error.

#include <cmath>
#include <functional>
#include <numeric>

#include "app/conformance/check_groups.h"
#include "app/conformance/recorded_run.h"
#include "app/conformance/rule_cases.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"

namespace kvscope::app::conformance {
namespace {

using nlohmann::json;

constexpr int kServicePrompt = 24;

json message_of(const protocol::Request& request) { return protocol::to_json(request, 0); }

/// Any ids will do where no run has read a prompt.
std::vector<std::int32_t> some_ids(const Subject& subject) {
  return subject.text_ids.empty() ? std::vector<std::int32_t>(kServicePrompt, 1) : subject.prompt(kServicePrompt);
}

std::string doctor(Subject& subject) {
  const auto found = protocol::doctor_checks_from_event(subject.talk.done(protocol::DoctorRequest{}));
  return std::to_string(found.size()) + " checks of its installation";
}

std::string score(Subject& subject) {
  const ScoreRequest request{.ids = some_ids(subject), .policy = subject.base_policy()};
  const ScoreFacts facts = protocol::score_from_event(subject.talk.done(request));
  return std::to_string(facts.ids.size()) + " log-probabilities";
}

std::string attention(Subject& subject) {
  const TokenAttentionRequest request{.ids = some_ids(subject), .layer = 0, .tokens = {2, 5}};
  const TokenAttention found = protocol::token_attention_from_event(subject.talk.done(request));
  return std::to_string(found.tokens.size()) + " tokens, " + std::to_string(found.n_heads) + " heads";
}

/// Each head's shares are at most the whole; a sink logit takes a part of it.
std::string query_attention(Subject& subject) {
  const QueryAttentionRequest request{some_ids(subject)};
  const QueryAttention found = protocol::query_attention_from_event(subject.talk.done(request));
  require(found.n_layers == subject.model.n_layers && found.n_kv_heads == subject.model.n_kv_heads &&
              found.n_tokens == static_cast<int>(request.ids.size()),
          "query_attention: other layers, heads or tokens than those of the model and the text");
  for (int layer = 0; layer < found.n_layers; ++layer) {
    for (int head = 0; head < found.n_kv_heads; ++head) {
      const float* p = found.row(layer, head);
      const double sum = std::accumulate(p, p + found.n_tokens, 0.0);
      require(sum <= 1 + 10 * subject.tolerance(), "query_attention: layer " + std::to_string(layer) + " head " +
                                                       std::to_string(head) + " sums to " + std::to_string(sum) +
                                                       "; expected at most 1");
    }
  }
  return std::to_string(found.n_layers) + " layers, " + std::to_string(found.n_tokens) + " tokens";
}

std::string gate_scores(Subject& subject) {
  if (subject.gates.scorers.empty()) throw NotServed("No gate is loaded that could score (--gate).");
  const json last = subject.talk.done(GateScoresRequest{some_ids(subject)});
  return std::to_string(protocol::gate_scores_from_event(last, subject.model).size()) + " gates";
}

std::string output_error(Subject& subject) {
  RunRequest request = long_request(subject, evicting_policy(subject), 8);
  request.output_error = true;
  const RecordedRun found = record(subject, request);
  require(!found.run.output_error.empty(),
          "no event output_error in a run that asked for it" +
              std::string(found.log.empty() ? "" : "; the log has: " + found.log.back()));
  return std::to_string(found.run.output_error.n_queries()) + " queries";
}

/// Budgets of heads that the request gives.
std::string thresholds(Subject& subject) {
  const PolicySpec policy = evicting_policy(subject);
  if (!find_policy(policy)->has_budget) throw NotServed("No policy has a budget that heads could divide.");
  RunRequest request = long_request(subject, policy, 8);
  const int budget = policy.geometry(subject.model.max_positions).budget();
  for (int head = 0; head < subject.model.n_layers * subject.model.n_kv_heads; ++head)
    request.budgets.push_back(budget + (head % 2 == 0 ? 2 : -2));
  const RecordedRun found = record(subject, request);
  require(found.run.budgets() == request.budgets, "started: the budgets of heads are not those of the request");
  return "budgets of " + std::to_string(request.budgets.size()) + " heads";
}

/// A job is not run: its model is one that does not exist. What counts is that it ends.
std::string job(Subject& subject, const std::string& name) {
  const protocol::JobRequest request{.job = name, .args = {{"model", "/no-such-folder/model"}}};
  subject.talk.ask(message_of(request));
  return "answered";
}

json refused_message(const Subject& subject, const std::string& service) {
  RunRequest run{.prompt_ids = some_ids(subject), .policy = PolicySpec::parse("full")};
  if (service == "score") return message_of(ScoreRequest{.ids = some_ids(subject), .policy = run.policy});
  if (service == "attention")
    return message_of(TokenAttentionRequest{.ids = some_ids(subject), .layer = 0, .tokens = {2}});
  if (service == "query_attention") return message_of(QueryAttentionRequest{some_ids(subject)});
  if (service == "gate_scores") return message_of(GateScoresRequest{some_ids(subject)});
  if (service == "doctor") return message_of(protocol::DoctorRequest{});
  if (service.starts_with("job.")) return message_of(protocol::JobRequest{.job = service.substr(4)});
  if (service == "thresholds")
    run.budgets.assign(static_cast<std::size_t>(subject.model.n_layers) * subject.model.n_kv_heads, 16);
  return message_of(run);
}

/// oracle, output_error and policy are parts of a run, which may go on without them.
std::string part_of_run_is_absent(Subject& subject, const std::string& service) {
  RunRequest request = subject.request(subject.base_policy(), kBasePrompt, 4);
  request.oracle = service == "oracle";
  request.output_error = service == "output_error";
  bool has_part = false;
  subject.talk.ask(message_of(request), [&](const json& event) { has_part |= event.value("type", "") == service; });
  require(!has_part, "an event " + service + ", which the engine does not declare");
  return "not declared, and absent from a run";
}

std::string declared(Subject& subject, const std::string& service) {
  const std::pair<const char*, std::string (*)(Subject&)> answers[] = {
      {"doctor", doctor},           {"score", score},
      {"attention", attention},     {"query_attention", query_attention},
      {"gate_scores", gate_scores}, {"output_error", output_error},
      {"thresholds", thresholds}};
  for (const auto& [name, answer] : answers)
    if (service == name) return answer(subject);
  if (service.starts_with("job.")) return job(subject, service.substr(4));
  return "see the checks of runs";  // run, oracle and policy
}

std::string undeclared(Subject& subject, const std::string& service) {
  const bool is_part = service == "oracle" || service == "output_error" || service == "policy";
  if (is_part && !subject.does("run")) throw NotServed("The engine serves no runs.");
  if (is_part) return part_of_run_is_absent(subject, service);
  const Error error =
      subject.talk.refused(refused_message(subject, service), "the service " + service + ", which is not declared,");
  return std::string("not declared, one error: ") + error.what();
}

}  // namespace

void check_services(Checks& checks, Subject& subject) {
  for (const protocol::Service& service : protocol::services()) {
    const std::string word(service.word);
    checks.check("service: " + word, [&] {
      return subject.does(word) ? "declared: " + declared(subject, word) : undeclared(subject, word);
    });
  }
}

}  // namespace kvscope::app::conformance
