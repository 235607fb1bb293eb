#include "app/window/keyboard_layout.h"

#include <algorithm>
#include <string_view>

#include "engine/core/support/utf8.h"

namespace kvscope::app {
namespace {

// GLFW's code of a key is what it types on an American keyboard, letters in upper case.
constexpr std::string_view kPlain = "`1234567890-=[]\\;',./", kShifted = "~!@#$%^&*()_+{}|:\"<>?";

bool is_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_mark(char32_t c) { return c > ' ' && c < 0x7f && !is_letter(c); }
char lower(char32_t c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c); }

char american_key(int code) { return code > ' ' && code < 0x7f ? lower(static_cast<char32_t>(code)) : '\0'; }
char american_shift(char plain) {
  const auto at = kPlain.find(plain);
  return at == std::string_view::npos ? static_cast<char>(plain - ('a' - 'A')) : kShifted[at];
}

Shortcut shortcut(char key, const PrintableKey& press, bool shift) {
  return {std::string(1, key), press.ctrl, shift, press.alt};
}

/// "?" is written "?" or "Shift+/".
void add_mark(char32_t mark, const PrintableKey& press, std::vector<Shortcut>& to) {
  to.push_back(shortcut(static_cast<char>(mark), press, false));
  const auto at = kShifted.find(static_cast<char>(mark));
  if (at != std::string_view::npos) to.push_back(shortcut(kPlain[at], press, true));
}

}  // namespace

KeySymbols KeyboardLayout::american() {
  KeySymbols symbols;
  for (std::size_t i = 0; i < kPlain.size(); ++i)
    symbols[kPlain[i]] = {static_cast<char32_t>(kPlain[i]), static_cast<char32_t>(kShifted[i]), 0, 0};
  for (char32_t c = 'A'; c <= 'Z'; ++c) symbols[static_cast<int>(c)] = {c + ('a' - 'A'), c, 0, 0};
  symbols[kBesideLeftShift] = {};
  return symbols;
}

char32_t KeyboardLayout::symbol(int code, int level) const {
  const auto key = symbols_.find(code);
  return key == symbols_.end() ? 0 : key->second[static_cast<std::size_t>(level)];
}

bool KeyboardLayout::types(char32_t character) const {
  return std::ranges::any_of(
      symbols_, [&](const auto& key) { return std::ranges::find(key.second, character) != key.second.end(); });
}

std::string KeyboardLayout::letter(int code) const {
  if (const char32_t own = symbol(code, 0); is_letter(own)) return {lower(own)};
  const char there = american_key(code);
  return is_letter(static_cast<char32_t>(there)) && !types(static_cast<char32_t>(there)) ? std::string(1, there) : "";
}

/// What an American keyboard has at that place, if this one has it nowhere.
void KeyboardLayout::add_place(const PrintableKey& press, std::vector<Shortcut>& to) const {
  const char there = american_key(press.code);
  if (there == '\0') return;
  const bool digit_of_chord = is_digit(static_cast<char32_t>(there)) && (press.ctrl || press.alt);
  const char typed = press.shift && !is_letter(static_cast<char32_t>(there)) ? american_shift(there) : there;
  if (digit_of_chord || !types(static_cast<char32_t>(typed))) to.push_back(shortcut(there, press, press.shift));
}

std::vector<Shortcut> KeyboardLayout::of_press(const PrintableKey& press) const {
  std::vector<Shortcut> all;
  const char32_t own = symbol(press.code, 0), typed = symbol(press.code, press.shift ? kShift : 0);
  if (is_letter(own)) return {shortcut(lower(own), press, press.shift)};
  if (press.ctrl || press.alt) {
    if (is_mark(typed)) add_mark(typed, press, all);
    if (press.shift && is_mark(own)) all.push_back(shortcut(static_cast<char>(own), press, true));
  } else if (is_mark(typed)) {
    return {};  // its character comes
  }
  add_place(press, all);
  return all;
}

std::vector<Shortcut> KeyboardLayout::of_character(char32_t character, const PrintableKey& press) const {
  std::vector<Shortcut> all;
  if (!is_mark(character)) return all;
  add_mark(character, press, all);
  const char32_t own = symbol(press.code, 0);
  if (press.shift && is_mark(own)) all.push_back(shortcut(static_cast<char>(own), press, true));
  add_place(press, all);
  return all;
}

std::vector<KeyboardLayout::Way> KeyboardLayout::ways(int level, bool ctrl, bool alt) const {
  std::vector<Way> ways;
  if ((ctrl || alt) && level >= kAltGr) return ways;
  for (const auto& [code, symbols] : symbols_) {
    const PrintableKey press{code, ctrl, (level & kShift) != 0, alt};
    const char32_t typed = symbol(code, level), own = symbol(code, 0);
    Way way{code, "", ctrl || alt || !is_mark(typed) ? of_press(press) : of_character(typed, press)};
    if (way.meanings.empty() || (level >= kAltGr && !is_mark(typed))) continue;
    for (const auto& [with, name] :
         {std::pair(ctrl, "Ctrl+"), {alt, "Alt+"}, {press.shift, "Shift+"}, {(level & kAltGr) != 0, "AltGr+"}}) {
      if (with) way.text += name;
    }
    const char there = american_key(code);
    const bool by_place =
        own == 0 || own == kUnknownCharacter || ((ctrl || alt) && is_digit(static_cast<char32_t>(there)) && level == 0);
    append_utf8(way.text, by_place ? static_cast<char32_t>(there) : own);
    ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace kvscope::app
