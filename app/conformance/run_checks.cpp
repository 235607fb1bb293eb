// Prompts as text, as token ids and as a chat; an answer that is given; texts that end an answer.

#include "app/conformance/check_groups.h"
#include "app/conformance/recorded_run.h"
#include "engine/core/support/text.h"
#include "engine/core/support/utf8.h"

namespace kvscope::app::conformance {
namespace {

RunRequest text_request(const Subject& subject) {
  RunRequest request{.prompt = kPrompt, .policy = subject.base_policy()};
  request.max_tokens = 4;
  request.oracle = false;
  request.stop_at_eos = false;
  return request;
}

std::string run_text(Subject& subject) {
  const RecordedRun found = record(subject, text_request(subject));
  subject.text_ids.assign(found.run.ids.begin(), found.run.ids.begin() + found.run.prompt_len);
  std::string prompt;
  for (int i = 0; i < found.run.prompt_len; ++i) prompt += found.run.pieces[static_cast<std::size_t>(i)];
  // A tokenizer may write a token before the text, and a space.
  require(prompt.find(kPrompt) != std::string::npos,
          "started: the pieces of the prompt are " + in_quotes(prompt) + "; expected the text " + in_quotes(kPrompt));
  return std::to_string(found.run.prompt_len) + " tokens, whose pieces are the text";
}

std::string run_ids(Subject& subject, std::optional<RecordedRun>& base) {
  base = record(subject, subject.request(subject.base_policy(), kBasePrompt, kBaseNew));
  return std::to_string(base->run.prompt_len) + " ids and " +
         std::to_string(base->run.n_tokens() - base->run.prompt_len) + " new tokens under " +
         base->run.policy.to_string();
}

std::string run_chat(Subject& subject) {
  RunRequest request = text_request(subject);
  request.raw = false;
  request.messages = {{"user", kPrompt}};
  RecordedRun found;
  try {
    found = record(subject, request);
  } catch (const Failure& error) {  // a model without a chat template is no fault of the engine
    if (std::string(error.what()).find("ended in an error") == std::string::npos) throw;
    throw NotServed(error.what());
  }
  std::string prompt;
  for (int i = 0; i < found.run.prompt_len; ++i) prompt += found.run.pieces[static_cast<std::size_t>(i)];
  require(prompt.find(kPrompt) != std::string::npos,
          "started: the message is not in the pieces of the chat's prompt: " + in_quotes(prompt));
  return std::to_string(found.run.prompt_len) + " tokens with the chat template";
}

/// The answer of the base run, given instead of drawn.
std::string run_given(Subject& subject, const RecordedRun& base) {
  RunRequest request = subject.request(base.run.policy, base.run.prompt_len, base.run.n_tokens() - base.run.prompt_len);
  request.answer_ids.emplace(base.run.ids.begin() + base.run.prompt_len, base.run.ids.end());
  const RecordedRun found = record(subject, request);
  const std::string what = "the same answer, given instead of drawn";
  require_same_tokens(found.run, base.run, subject.tolerance(), what);
  require_same_lifetimes(found.run, base.run, "when drawn");
  return "the same log-probabilities and lifetimes as drawn";
}

/// A piece of the base run's answer that is text and not at its very beginning.
std::string some_piece(const RecordedRun& base) {
  for (int i = base.run.prompt_len + 2; i < base.run.n_tokens(); ++i) {
    const std::string piece(base.run.pieces[static_cast<std::size_t>(i)]);
    bool is_text = !piece.empty();
    for (std::size_t at = 0; is_text && at < piece.size(); at += decode_utf8(piece, at).length)
      is_text = decode_utf8(piece, at).valid;
    if (is_text && base.text.find(piece) != 0) return piece;
  }
  throw NotServed("The answer has no piece of text that could end it.");
}

std::string run_stop(Subject& subject, const RecordedRun& base) {
  RunRequest request = subject.request(base.run.policy, base.run.prompt_len, base.run.n_tokens() - base.run.prompt_len);
  request.stop = {some_piece(base)};
  const RecordedRun found = record(subject, request);
  const std::string wanted = base.text.substr(0, base.text.find(request.stop[0]));
  require(found.text == wanted, "stop " + in_quotes(request.stop[0]) + ": the text is " + in_quotes(found.text) +
                                    "; expected " + in_quotes(wanted) + ", what comes before it");
  return "the answer ends before " + in_quotes(request.stop[0]);
}

}  // namespace

void check_runs(Checks& checks, Subject& subject) {
  if (!subject.does("run")) return;  // check_services() has it
  checks.check("run: a prompt as text", [&] { return run_text(subject); });
  std::optional<RecordedRun> base;
  checks.check("run: a prompt as token ids", [&] { return run_ids(subject, base); });
  checks.check("run: a chat", [&] { return run_chat(subject); });
  if (!base) return;
  checks.check("run: an answer that is given", [&] { return run_given(subject, *base); });
  checks.check("run: a text that ends the answer", [&] { return run_stop(subject, *base); });
}

}  // namespace kvscope::app::conformance
