#pragma once
// What the keyboard's layout prints on its keys, and so which shortcut a press means.
//
// Marks and digits go by the character that is typed, wherever the layout has it. Letters go by the layout's own letter; where
// it has no such Latin letter (Cyrillic, Greek, Hebrew, Arabic) by the place of the key on an American keyboard, and so does a
// mark that the layout cannot type at all. With Ctrl or Alt no character comes: there the layout is asked for it.

#include <array>
#include <map>
#include <string>
#include <vector>

#include "app/command/commands.h"

namespace kvscope::app {

/// By GLFW's code of a key: what it types alone, with Shift, with AltGr and with both. 0: no character, as of a dead key.
using KeySymbols = std::map<int, std::array<char32_t, 4>>;

inline constexpr char32_t kUnknownCharacter = 0xfffd;  // one that is not ASCII

/// A key that types a character, as it is pressed.
struct PrintableKey {
  int code = 0;
  bool ctrl = false, shift = false, alt = false;
};

class KeyboardLayout {
 public:
  static constexpr int kShift = 1, kAltGr = 2;
  static constexpr int kBesideLeftShift = 161;  // GLFW_KEY_WORLD_1, which an American keyboard has not

  KeyboardLayout() : KeyboardLayout(american()) {}
  explicit KeyboardLayout(KeySymbols symbols) : symbols_(std::move(symbols)) {}
  static KeySymbols american();

  /// The shortcuts that a press may mean, the likeliest first. Empty: its character decides.
  std::vector<Shortcut> of_press(const PrintableKey& press) const;
  /// Those of a character that was typed, last by `press`. Empty for letters, which of_press() knows.
  std::vector<Shortcut> of_character(char32_t character, const PrintableKey& press) const;
  /// "k": the Latin letter that a key means in a shortcut; empty for a key that means none.
  std::string letter(int code) const;

  /// Of all keys in turn, with modifiers of `level`: what they mean, and how that is written ("Shift+7").
  struct Way {
    int code = 0;
    std::string text;
    std::vector<Shortcut> meanings;
  };
  std::vector<Way> ways(int level, bool ctrl, bool alt) const;

 private:
  char32_t symbol(int code, int level) const;
  bool types(char32_t character) const;
  void add_place(const PrintableKey& press, std::vector<Shortcut>& to) const;

  KeySymbols symbols_;
};

}  // namespace kvscope::app
