#include "app/session/conversation.h"

#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {

std::vector<ChatMessage> Conversation::messages(const std::string& draft) const {
  std::vector<ChatMessage> said = turns;
  if (!draft.empty()) {
    said.push_back({"user", draft});
  } else {
    while (!said.empty() && said.back().role != "user") said.pop_back();
  }
  if (!said.empty() && !system.empty()) said.insert(said.begin(), {"system", system});
  return said;
}

const std::string& Conversation::asked(const std::string& draft) const {
  if (!draft.empty()) return draft;
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
    if (turn->role == "user") return turn->content;
  }
  return draft;
}

std::vector<ChatMessage> with_answer(std::vector<ChatMessage> turns, const std::string& text) {
  if (turns.empty()) return turns;
  if (turns.back().role == "assistant") {
    turns.back().content = text;
  } else {
    turns.push_back({"assistant", text});
  }
  return turns;
}

nlohmann::json to_json(const Conversation& conversation) {
  nlohmann::json turns = nlohmann::json::array();
  for (const ChatMessage& turn : conversation.turns) turns.push_back({{"role", turn.role}, {"content", turn.content}});
  nlohmann::json json = {{"system", conversation.system}, {"turns", turns}};
  if (conversation.thinking) json["thinking"] = *conversation.thinking;
  return json;
}

Conversation conversation_from(const JsonObject& object) {
  Conversation conversation;
  conversation.system = object.text_or("system", "");
  if (object.has("thinking")) conversation.thinking = object.boolean_or("thinking", true);
  if (!object.has("turns")) return conversation;
  const nlohmann::json& turns = object.raw()["turns"];
  const auto refuse = [&](const std::string& found, const char* expected) {
    throw Error({.file = object.file(), .where = "turns", .found = found, .expected = expected});
  };
  if (!turns.is_array()) refuse(turns.type_name(), "a list");
  for (const auto& item : turns) {
    const JsonObject turn(item, object.file(), "turns.");
    conversation.turns.push_back({turn.text("role"), turn.text("content")});
    const std::string& role = conversation.turns.back().role;
    if (role != "user" && role != "assistant") refuse(in_quotes(role), "user or assistant");
  }
  return conversation;
}

}  // namespace kvscope::app
