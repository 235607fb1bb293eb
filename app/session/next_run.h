#pragma once
// What the next run will be.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/session/conversation.h"
#include "app/session/revision.h"
#include "app/session/worker.h"
#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/record/run_record.h"
#include "engine/core/record/run_request.h"

namespace kvscope::app {

/// All but the prompt. What is added here is kept and undone once it is in app/workspace/state_fields.h.
struct RunSettings {
  bool raw = true;
  PolicySpec policy;
  SamplingSpec sampling;
  int max_tokens = 64;
  bool output_error = false;      // measured when the last token is there, by a pass over all of them
  Conversation chat;              // before `prompt`, the user's next turn; used unless raw
  std::vector<std::string> stop;  // texts before which an answer ends
  std::string budgets;            // of each head, as budgets_of_text() reads them; empty: the policy's
};
struct Parameters : RunSettings {
  std::string prompt;
};

class NextRun {
 public:
  /// `background` reads tokenizers.
  NextRun(Revision& revision, Worker& background);

  /// Of a new window.
  static Parameters defaults();
  const Parameters& parameters() const { return parameters_; }
  void set(Parameters parameters);
  void set_prompt(std::string text);
  /// Cuts it at its end until it has at most so many tokens; nothing while they are not counted.
  void shorten_prompt(int most);
  void set_raw(bool raw);
  void set_policy(const PolicySpec& policy);
  /// Of the last policy that had one: what another policy with a budget begins with, though one without came between.
  const std::optional<BudgetSpec>& last_budget() const { return last_budget_; }
  void set_sampling(const SamplingSpec& sampling) { parameters_.sampling = sampling, revision_.rise(); }
  void set_max_tokens(int n);
  void set_output_error(bool measured) { parameters_.output_error = measured, revision_.rise(); }
  void set_chat(Conversation chat);
  /// Throws Error (usage) for what is no stop text, an empty one, say.
  void set_stop(std::vector<std::string> stop);
  /// Budgets of heads, as budgets_of_text() reads them; empty: every head has the policy's. Throws Error (bad input).
  void set_budgets(const std::string& text);
  /// Those, where the policy is one that takes any; else empty.
  std::vector<std::int32_t> budgets() const;
  /// The draft was sent: it is the conversation's last turn now, and whatever answered that before is gone.
  void sent();
  /// The assistant's answer to the last turn, or what is now known of it.
  void answered(const std::string& text);
  /// The user's turn `index` is the draft again; it and all after it are gone. Throws Error (usage) for another turn.
  void edit_turn(int index);

  /// Counts the prompt with the tokenizer of the model's folder from now on, if it can be read. A model without a usable chat
  /// template gets the prompt as it is; no_chat is called with chat_refusal() if that was not so before.
  void read_tokenizer(const std::string& model_path, std::function<void(const std::string&)> no_chat = nullptr);
  /// It has not come to its end yet: how long the prompt is, and so what a share of it would be, is not known.
  bool reads_tokenizer() const { return reads_tokenizer_; }
  /// The model has a chat template that can be used. False while that is not known.
  bool has_chat() const { return words_ && words_->chat; }
  /// Why the chat template that the model has cannot be used; empty if it can, or if there is none.
  std::string chat_refusal() const { return words_ ? words_->chat_refusal : ""; }
  /// And it leaves the choice whether the model thinks.
  bool has_thinking_choice() const { return has_chat() && words_->chat->has_thinking_choice(); }
  /// What the run is to answer: the prompt, or a chat's last turn by the user. Empty: nothing.
  const std::string& asked() const;
  /// The tokens of a text as the model reads it; the text as one where that is not known yet.
  std::vector<std::string> pieces_of(const std::string& text) const;
  int prompt_tokens() const { return prompt_tokens_; }  // -1 while not known
  int n_positions() const;                              // prompt and answer to come; 0 while not known
  RunRequest request() const;

 private:
  struct Words {
    Tokenizer tokenizer;
    std::optional<ChatTemplate> chat;
    std::string chat_refusal;
  };
  void count_prompt();
  std::size_t prompt_bytes() const;
  static int count(const Words& words, const Parameters& parameters, const ChatOptions& options);
  ChatOptions chat_options() const;

  Revision& revision_;
  Worker& background_;
  Parameters parameters_;
  std::optional<BudgetSpec> last_budget_;
  std::string tokenizer_path_;
  std::shared_ptr<const Words> words_;
  int prompt_tokens_ = -1;
  bool reads_tokenizer_ = false;
  bool counting_ = false;       // in the background
  std::uint64_t to_count_ = 0;  // rises with every change that is to be counted
};

}  // namespace kvscope::app
