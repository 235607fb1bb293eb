#include "app/session/next_run.h"

#include <algorithm>
#include <utility>

#include "app/support/usage.h"
#include "engine/core/files/tokenizer/stop_strings.h"
#include "engine/core/policy/allocation.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/support/error.h"
#include "engine/core/support/utf8_prefix.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kCountedAtOnce = 32u << 10, kMaxCounted = 16u << 20;  // bytes; 32 KiB take a few milliseconds

}  // namespace

NextRun::NextRun(Revision& revision, Worker& background)
    : revision_(revision), background_(background), parameters_(defaults()) {}

Parameters NextRun::defaults() {
  Parameters parameters;
  // Of the first prompt, 168 tokens and an answer, a quarter would be sinks and window alone: nothing would compete.
  parameters.policy = PolicySpec::parse("kvpop:keep=50%");
  return parameters;
}

void NextRun::set(Parameters parameters) {
  parameters_ = std::move(parameters);
  if (parameters_.policy.budget) last_budget_ = parameters_.policy.budget;
  count_prompt();
}

void NextRun::set_policy(const PolicySpec& policy) {
  parameters_.policy = policy;
  if (policy.budget) last_budget_ = policy.budget;
  revision_.rise();
}

void NextRun::set_prompt(std::string text) {
  parameters_.prompt = std::move(text);
  count_prompt();
}

// A few counts: each guess is the share of the text that would be right if its tokens were of one length. Counted at once,
// however long: the first guess is of the context's length already.
void NextRun::shorten_prompt(int most) {
  std::string text = parameters_.prompt;
  for (int n = prompt_tokens_; words_ && n > std::max(1, most) && !text.empty();) {
    const double share = std::max(0, most) / static_cast<double>(n);
    const auto size = static_cast<std::size_t>(static_cast<double>(text.size()) * share);
    text.resize(utf8_prefix(text, std::min(text.size() - 1, size)).size());
    set_prompt(text);
    n = count(*words_, parameters_, chat_options());
  }
}

void NextRun::set_raw(bool raw) {
  parameters_.raw = raw;
  count_prompt();
}

void NextRun::set_max_tokens(int n) {
  parameters_.max_tokens = std::clamp(n, 0, 1 << 24);
  revision_.rise();
}

void NextRun::set_chat(Conversation chat) {
  parameters_.chat = std::move(chat);
  count_prompt();
}

void NextRun::set_stop(std::vector<std::string> stop) {
  StopStrings{stop};  // refuses what the engine would
  parameters_.stop = std::move(stop);
  revision_.rise();
}

void NextRun::sent() {
  parameters_.chat.turns = parameters_.chat.messages(parameters_.prompt);
  std::erase_if(parameters_.chat.turns, [](const ChatMessage& turn) { return turn.role == "system"; });
  set_prompt("");
}

void NextRun::answered(const std::string& text) {
  parameters_.chat.turns = with_answer(std::move(parameters_.chat.turns), text);
  count_prompt();
}

void NextRun::edit_turn(int index) {
  std::vector<ChatMessage>& turns = parameters_.chat.turns;
  if (index < 0 || index >= static_cast<int>(turns.size()) || turns[static_cast<std::size_t>(index)].role != "user")
    usage_error("turn", std::to_string(index), "a user turn");
  parameters_.prompt = turns[static_cast<std::size_t>(index)].content;
  turns.resize(static_cast<std::size_t>(index));
  count_prompt();
}

const std::string& NextRun::asked() const {
  return parameters_.raw ? parameters_.prompt : parameters_.chat.asked(parameters_.prompt);
}

void NextRun::read_tokenizer(const std::string& model_path, std::function<void(const std::string&)> no_chat) {
  tokenizer_path_ = model_path;
  reads_tokenizer_ = true;
  background_.post(
      [this, model_path, no_chat = std::move(no_chat)]() -> Worker::Finish {
        auto words = std::make_shared<Words>(Words{Tokenizer::load(model_path), std::nullopt, ""});
        try {
          words->chat = ChatTemplate::find(model_path);
        } catch (const Error& error) {
          Error::Parts parts = error.parts();
          parts.file = std::filesystem::path(parts.file).filename().string();
          parts.hint.clear();
          words->chat_refusal = format_error(parts);
        }
        return [this, model_path, words, no_chat] {
          if (model_path != tokenizer_path_) return;
          words_ = words;
          reads_tokenizer_ = false;
          const bool had_chat = !parameters_.raw;
          if (!words->chat) parameters_.raw = true;
          if (had_chat && parameters_.raw && no_chat) no_chat(words->chat_refusal);
          count_prompt();
        };
      },
      [this, model_path](const std::string&) {  // the engine reads it too and says what is wrong
        if (model_path != tokenizer_path_) return;
        reads_tokenizer_ = false;
        revision_.rise();
      });
}

std::size_t NextRun::prompt_bytes() const {
  std::size_t bytes = parameters_.prompt.size();
  if (!parameters_.raw) {
    for (const ChatMessage& turn : parameters_.chat.turns) bytes += turn.content.size();
  }
  return bytes;
}

// A short prompt is counted while one types, a long one aside: what is typed meanwhile is counted when that is done.
void NextRun::count_prompt() {
  prompt_tokens_ = -1;
  ++to_count_;
  revision_.rise();
  if (!words_ || (!parameters_.raw && !words_->chat) || prompt_bytes() > kMaxCounted) return;
  if (prompt_bytes() <= kCountedAtOnce) {
    prompt_tokens_ = count(*words_, parameters_, chat_options());
    return;
  }
  if (counting_) return;
  counting_ = true;
  background_.post(
      [this, words = words_, parameters = parameters_, options = chat_options(),
       counted = to_count_]() -> Worker::Finish {
        const int n = count(*words, parameters, options);
        return [this, n, counted] {
          counting_ = false;
          if (counted != to_count_) return count_prompt();
          prompt_tokens_ = n;
          revision_.rise();
        };
      },
      [this](const std::string&) { counting_ = false; });
}

int NextRun::count(const Words& words, const Parameters& parameters, const ChatOptions& options) {
  if (parameters.raw) return static_cast<int>(words.tokenizer.encode_with_special(parameters.prompt).size());
  std::vector<ChatMessage> messages = parameters.chat.messages(parameters.prompt);
  if (messages.empty()) messages = {{"user", ""}};
  return static_cast<int>(words.chat->encode(words.tokenizer, messages, options).size());
}

// A choice that this model does not leave is not asked for.
ChatOptions NextRun::chat_options() const {
  ChatOptions options;
  if (has_thinking_choice()) options.thinking = parameters_.chat.thinking;
  return options;
}

std::vector<std::string> NextRun::pieces_of(const std::string& text) const {
  if (!words_) return {text};
  std::vector<std::string> pieces;
  for (const std::int32_t id : words_->tokenizer.encode(text)) pieces.emplace_back(words_->tokenizer.piece(id));
  return pieces;
}

void NextRun::set_budgets(const std::string& text) {
  if (!text.empty()) budgets_of_text(text, "budgets");
  parameters_.budgets = text;
  revision_.rise();
}

std::vector<std::int32_t> NextRun::budgets() const {
  if (parameters_.budgets.empty() || !takes_budgets(parameters_.policy)) return {};
  return budgets_of_text(parameters_.budgets, "budgets");
}

int NextRun::n_positions() const { return prompt_tokens_ < 0 ? 0 : prompt_tokens_ + parameters_.max_tokens; }

RunRequest NextRun::request() const {
  RunRequest request;
  request.prompt = asked();
  request.raw = parameters_.raw;
  if (!request.raw) {
    request.messages = parameters_.chat.messages(parameters_.prompt);
    if (request.messages.size() == 1) request.messages.clear();  // the prompt is its one message
    request.chat = chat_options();
  }
  request.stop = parameters_.stop;
  request.policy = parameters_.policy;
  request.budgets = budgets();
  request.max_tokens = parameters_.max_tokens;
  request.sampling = parameters_.sampling;
  request.output_error = parameters_.output_error && why_not_measurable(request.policy).empty();
  return request;
}

}  // namespace kvscope::app
