#include "app/window/shortcut_texts.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace kvscope::app {
namespace {

constexpr int kShift = KeyboardLayout::kShift, kAltGr = KeyboardLayout::kAltGr;

/// "right" as it is printed on the key: "Right".
std::string key_caps(std::string keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i == 0 || keys[i - 1] == '+') keys[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(keys[i])));
  }
  return keys;
}

}  // namespace

void ShortcutTexts::use(const KeyboardLayout& layout) {
  layout_ = layout;
  texts_.clear();
}

// By trying all keys: a hint never names a key that means something else here. The key beside the left Shift comes last: many
// keyboards have none.
const std::string& ShortcutTexts::text(const std::string& word) {
  const auto [known, is_new] = texts_.try_emplace(word, word);
  if (!is_new) return known->second;
  const Shortcut wanted = Shortcut::parse(word);
  const bool is_mark = wanted.key.size() == 1 && std::isalpha(static_cast<unsigned char>(wanted.key[0])) == 0;
  if (!is_mark) return known->second = key_caps(word);
  known->second.clear();
  for (const bool iso : {false, true}) {
    for (const int level : {0, kShift, kAltGr, kAltGr + kShift}) {
      for (const auto& way : layout_.ways(level, wanted.ctrl, wanted.alt)) {
        const auto bound =
            std::ranges::find_if(way.meanings, [&](const Shortcut& s) { return commands_.find(s) != nullptr; });
        if (bound == way.meanings.end() || *bound != wanted || (way.code == KeyboardLayout::kBesideLeftShift) != iso)
          continue;
        return known->second = key_caps(way.text);
      }
    }
  }
  return known->second;
}

std::string ShortcutTexts::all(const Command& command) {
  std::istringstream words(command.shortcut);
  std::vector<std::string> texts;
  for (std::string word; words >> word;) {
    const std::string& keys = text(word);
    if (!keys.empty() && std::ranges::find(texts, keys) == texts.end()) texts.push_back(keys);
  }
  std::string line;
  for (const std::string& keys : texts) line += (line.empty() ? "" : " ") + keys;
  return line;
}

std::string ShortcutTexts::first(const Command& command) {
  const std::string line = all(command);
  return line.substr(0, line.find(' '));
}

}  // namespace kvscope::app
