#pragma once
// A chat with turns, and what of it the next run is asked to answer.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/record/chat_message.h"

namespace kvscope {
class JsonObject;
}

namespace kvscope::app {

struct Conversation {
  std::string system;              // empty: as the model's template has it
  std::vector<ChatMessage> turns;  // of user and assistant
  std::optional<bool> thinking;    // nothing: as the template does by itself
  bool operator==(const Conversation&) const = default;

  /// What a run is asked: the turns and `draft` as the user's next. Without a draft, the turns up to the user's last.
  std::vector<ChatMessage> messages(const std::string& draft) const;
  /// The user's turn that these end with: `draft`, or the last.
  const std::string& asked(const std::string& draft) const;
};

/// The turns with `text` as the answer to the last: in the place of the one it has, or after the user's.
std::vector<ChatMessage> with_answer(std::vector<ChatMessage> turns, const std::string& text);

nlohmann::json to_json(const Conversation& conversation);
/// Throws Error for what is not a conversation; a field that is not there keeps its default.
Conversation conversation_from(const JsonObject& object);

}  // namespace kvscope::app
