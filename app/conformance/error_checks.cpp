// Requests that cannot be served: each ends in one error, and the engine serves the next one.

#include "app/conformance/check_groups.h"
#include "app/conformance/recorded_run.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"

namespace kvscope::app::conformance {
namespace {

using nlohmann::json;

constexpr int kErrorPrompt = 8;

json run_message(const Subject& subject) {
  return protocol::to_json(protocol::Request(subject.request(subject.base_policy(), kErrorPrompt, 1)), 0);
}

struct BadRequest {
  const char* what;
  json message;
};

std::vector<BadRequest> bad_requests(const Subject& subject) {
  const json good = run_message(subject);
  const auto with = [&](const char* key, json value) {
    json message = good;
    message[key] = std::move(value);
    return message;
  };
  json no_policy = good;
  no_policy.erase("policy");
  const std::string name = subject.base_policy().name;
  const std::vector<std::int32_t> long_prompt(static_cast<std::size_t>(subject.model.max_positions) + 1,
                                              subject.text_ids.front());
  return {
      {"an unknown request type", {{"type", "no_such_request"}}},
      {"an unknown policy", with("policy", "no-such-policy:budget=64")},
      {"an unknown parameter of a policy", with("policy", name + ":no_such_parameter=1")},
      {"a policy with a window of -1", with("policy", name + ":window=-1")},
      {"a run without a policy", no_policy},
      {"max_tokens of -1", with("max_tokens", -1)},
      {"a token id outside the vocabulary",
       with("prompt_ids", protocol::pack(std::vector<std::int32_t>{subject.model.vocab_size}))},
      {"a prompt without tokens", with("prompt_ids", protocol::pack(std::vector<std::int32_t>{}))},
      {"prompt_ids that are no byte string", with("prompt_ids", "1, 2, 3")},
      {"a prompt longer than the context", with("prompt_ids", protocol::pack(long_prompt))},
  };
}

}  // namespace

void check_errors(Checks& checks, Subject& subject) {
  if (!subject.does("run") || subject.text_ids.empty()) return;
  for (const BadRequest& bad : bad_requests(subject)) {
    checks.check(std::string("error: ") + bad.what, [&] {
      const Error error = subject.talk.refused(bad.message, bad.what);
      subject.talk.done(run_message(subject));
      return std::string("one error, then a run: ") + error.what();
    });
  }
}

}  // namespace kvscope::app::conformance
