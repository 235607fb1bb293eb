#include "app/session/next_run.h"

#include <algorithm>
#include <utility>

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxCountedPrompt = 1u << 20;  // bytes; longer ones are not counted while typing

}  // namespace

NextRun::NextRun(Revision& revision, Worker& background) : revision_(revision), background_(background) {
  parameters_.policy = PolicySpec::parse("kvpop:keep=25%");
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

void NextRun::set_max_tokens(int n) {
  parameters_.max_tokens = std::clamp(n, 0, 1 << 24);
  revision_.rise();
}

void NextRun::read_tokenizer(const std::string& model_path) {
  tokenizer_path_ = model_path;
  background_.post(
      [this, model_path]() -> Worker::Finish {
        auto tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(model_path));
        return [this, model_path, tokenizer] {
          if (model_path != tokenizer_path_) return;
          tokenizer_ = tokenizer;
          count_prompt();
          revision_.rise();
        };
      },
      [](const std::string&) {});  // the engine reads it too and says what is wrong
}

void NextRun::count_prompt() {
  const bool countable = tokenizer_ && parameters_.prompt.size() <= kMaxCountedPrompt;
  prompt_tokens_ = countable ? static_cast<int>(tokenizer_->encode_with_special(parameters_.prompt).size()) : -1;
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
