#pragma once
// Everything that can be done, by id: menu, shortcut, palette, script and test call the same thing.

#include <concepts>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "app/command/argument.h"

namespace kvscope::app {

/// A key with modifiers. `key` as KeyPress names it.
struct Shortcut {
  std::string key;
  bool ctrl = false, shift = false, alt = false;
  bool operator==(const Shortcut&) const = default;
  /// "Ctrl+Shift+E". Throws std::logic_error for a text that is none: shortcuts are written in the source.
  static Shortcut parse(std::string_view text);
};

/// What a command does: any callable, with or without arguments, with or without an answer (null). May throw Error.
class Action {
 public:
  Action() = default;
  template <typename F>
  requires(!std::same_as<F, Action>) Action(F f)
      : call_([f = std::move(f)](const nlohmann::json& arguments) mutable -> nlohmann::json {
          const auto call = [&] {
            if constexpr (std::invocable<F&, const nlohmann::json&>) {
              return f(arguments);
            } else {
              return f();
            }
          };
          if constexpr (std::is_void_v<decltype(call())>) {
            call();
            return nullptr;
          } else {
            return call();
          }
        }) {}
  nlohmann::json operator()(const nlohmann::json& arguments) const { return call_(arguments); }

 private:
  std::function<nlohmann::json(const nlohmann::json& arguments)> call_;
};

struct Command {
  std::string id;                   // "run.start"
  std::string title;                // "Run"
  std::string group;                // menu: "Run", "View" ...
  std::string shortcut;             // "Ctrl+R", or several separated by a space; empty for none
  std::vector<Argument> arguments;  // what `run` takes
  std::function<bool()> enabled;    // null: always
  Action run;
  std::function<std::string()> why_not = nullptr;  // besides: a sentence while it is not possible, else empty
};

class CommandRegistry {
 public:
  /// Ids and shortcuts must be new.
  void add(Command command);
  const std::vector<Command>& all() const { return commands_; }
  const Command* find(std::string_view id) const;
  /// The enabled or disabled command of that key; nullptr if there is none.
  const Command* find(const Shortcut& shortcut) const;
  bool enabled(const Command& command) const {
    return (!command.enabled || command.enabled()) && refusal(command).empty();
  }
  /// Why it is not possible now, a sentence; empty where it is, or nothing is known but that it is not.
  std::string refusal(const Command& command) const { return command.why_not ? command.why_not() : std::string(); }
  /// Of a command that says what it would do now. Nothing if there is no such command.
  void set_title(std::string_view id, std::string title);
  /// Called before and after every command, also of one that throws.
  void look_around(std::function<void()> look) { look_ = std::move(look); }
  /// Throws Error (usage) for an unknown id (naming what comes close) and for a command that is not possible now.
  nlohmann::json execute(std::string_view id, const nlohmann::json& arguments = nlohmann::json::object()) const;

 private:
  struct Binding {
    Shortcut shortcut;
    std::size_t command;
  };
  std::vector<Command> commands_;
  std::vector<Binding> bindings_;
  std::function<void()> look_;
};

}  // namespace kvscope::app
