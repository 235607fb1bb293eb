#include "app/session/next_run.h"

#include <algorithm>
#include <utility>

#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxCountedPrompt = 1u << 20;  // bytes; longer ones are not counted while typing

}  // namespace

NextRun::NextRun(Revision& revision, Worker& background)
    : revision_(revision), background_(background), parameters_(defaults()) {}

Parameters NextRun::defaults() {
  Parameters parameters;
  parameters.policy = PolicySpec::parse("kvpop:keep=25%");
  return parameters;
}

void NextRun::set(Parameters parameters) {
  parameters_ = std::move(parameters);
  count_prompt();
  revision_.rise();
}

void NextRun::set_prompt(std::string text) {
  parameters_.prompt = std::move(text);
  count_prompt();
  revision_.rise();
}

void NextRun::set_raw(bool raw) {
  parameters_.raw = raw;
  count_prompt();
  revision_.rise();
}

void NextRun::set_max_tokens(int n) {
  parameters_.max_tokens = std::clamp(n, 0, 1 << 24);
  revision_.rise();
}

void NextRun::read_tokenizer(const std::string& model_path) {
  tokenizer_path_ = model_path;
  background_.post(
      [this, model_path]() -> Worker::Finish {
        auto words =
            std::make_shared<Words>(Words{Tokenizer::load(model_path), ChatTemplate::exists(model_path), std::nullopt});
        try {
          if (words->has_template) words->chat = ChatTemplate::load(model_path);
        } catch (const Error&) {
          // The engine says what is wrong with it when a chat is asked for; plain text is counted all the same.
        }
        return [this, model_path, words] {
          if (model_path != tokenizer_path_) return;
          words_ = words;
          if (!words->has_template) parameters_.raw = true;
          count_prompt();
          revision_.rise();
        };
      },
      [](const std::string&) {});  // the engine reads it too and says what is wrong
}

void NextRun::count_prompt() {
  prompt_tokens_ = -1;
  const bool chat = !parameters_.raw;
  if (!words_ || parameters_.prompt.size() > kMaxCountedPrompt || (chat && !words_->chat)) return;
  const std::vector<ChatMessage> messages = {{"user", parameters_.prompt}};
  prompt_tokens_ = static_cast<int>((chat ? words_->chat->encode(words_->tokenizer, messages)
                                          : words_->tokenizer.encode_with_special(parameters_.prompt))
                                        .size());
}

int NextRun::n_positions() const { return prompt_tokens_ < 0 ? 0 : prompt_tokens_ + parameters_.max_tokens; }

RunRequest NextRun::request() const {
  RunRequest request;
  request.prompt = parameters_.prompt;
  request.raw = parameters_.raw;
  request.policy = parameters_.policy;
  request.max_tokens = parameters_.max_tokens;
  request.sampling = parameters_.sampling;
  return request;
}

RunRequest NextRun::decode_again(const RunRecord& run) const {
  RunRequest again = request();
  again.prompt = run.prompt_text;
  again.prompt_ids.assign(run.ids.begin(), run.ids.begin() + run.prompt_len);
  again.sampling = run.sampling;
  again.max_tokens = std::max(0, run.n_positions - run.prompt_len);
  return again;
}

RunRequest NextRun::replay(const RunRecord& run) const {
  RunRequest replay = request();
  replay.prompt = run.prompt_text;
  replay.max_tokens = std::max(run.n_positions, run.n_tokens()) - run.prompt_len;
  if (run.prompt_len == run.n_tokens()) {
    replay.prompt_ids = run.ids;
    replay.chunk = 1;
    return replay;
  }
  replay.prompt_ids.assign(run.ids.begin(), run.ids.begin() + run.prompt_len);
  replay.answer_ids.emplace(run.ids.begin() + run.prompt_len, run.ids.end());
  return replay;
}

}  // namespace kvscope::app
