#include "app/command/commands.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

#include "app/support/usage.h"

namespace kvscope::app {

Shortcut Shortcut::parse(std::string_view text) {
  Shortcut shortcut;
  while (true) {
    const auto plus = text.find('+');
    if (plus == std::string_view::npos || plus + 1 == text.size()) break;
    const std::string_view modifier = text.substr(0, plus);
    if (modifier == "Ctrl") {
      shortcut.ctrl = true;
    } else if (modifier == "Shift") {
      shortcut.shift = true;
    } else if (modifier == "Alt") {
      shortcut.alt = true;
    } else {
      throw std::logic_error("shortcut: " + std::string(text));
    }
    text.remove_prefix(plus + 1);
  }
  if (text.empty()) throw std::logic_error("shortcut without a key");
  shortcut.key = text;
  std::transform(shortcut.key.begin(), shortcut.key.end(), shortcut.key.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return shortcut;
}

void CommandRegistry::add(Command command) {
  if (find(command.id)) throw std::logic_error("command twice: " + command.id);
  std::istringstream words(command.shortcut);
  for (std::string word; words >> word;) {
    const Shortcut shortcut = Shortcut::parse(word);
    if (find(shortcut)) throw std::logic_error("shortcut twice: " + word);
    bindings_.push_back({shortcut, commands_.size()});
  }
  commands_.push_back(std::move(command));
}

const Command* CommandRegistry::find(std::string_view id) const {
  const auto it = std::ranges::find(commands_, id, &Command::id);
  return it == commands_.end() ? nullptr : &*it;
}

const Command* CommandRegistry::find(const Shortcut& shortcut) const {
  const auto it = std::ranges::find(bindings_, shortcut, &Binding::shortcut);
  return it == bindings_.end() ? nullptr : &commands_[it->command];
}

nlohmann::json CommandRegistry::execute(std::string_view id, const nlohmann::json& arguments) const {
  const Command* command = find(id);
  if (!command) usage_error(std::string(id), "no such command", "", "the palette (Ctrl+K) lists all commands");
  if (!enabled(*command)) {
    const std::string why = refusal(*command);
    usage_error(std::string(id), why.empty() ? "not possible now" : "not possible now: " + why);
  }
  // A copy, because a command may add another one: the list moves.
  const Action run = command->run;
  if (!look_) return run(arguments);
  look_();
  try {
    nlohmann::json result = run(arguments);
    look_();
    return result;
  } catch (...) {
    look_();
    throw;
  }
}

void CommandRegistry::set_title(std::string_view id, std::string title) {
  const auto it = std::ranges::find(commands_, id, &Command::id);
  if (it != commands_.end()) it->title = std::move(title);
}

}  // namespace kvscope::app
