// Which shortcut a press means on which keyboard, and how it is written there.

#include "app/window/keyboard_layout.h"

#include <catch2/catch.hpp>

#include "app/window/shortcut_texts.h"
#include "engine/core/support/utf8.h"

using namespace kvscope;
using app::KeyboardLayout;
using app::KeySymbols;
using app::Shortcut;

namespace {

/// An American keyboard on which the keys of `codes` type `plain`, with Shift `shifted`. A blank: nothing.
KeySymbols with(KeySymbols symbols, const std::string& codes, std::u32string_view plain, std::u32string_view shifted,
                std::u32string_view alt_gr = U"") {
  const auto typed = [](std::u32string_view all, std::size_t i) {
    return i < all.size() && all[i] != U' ' ? all[i] : U'\0';
  };
  for (std::size_t i = 0; i < codes.size(); ++i)
    symbols[static_cast<unsigned char>(codes[i])] = {typed(plain, i), typed(shifted, i), typed(alt_gr, i), 0};
  return symbols;
}

const KeySymbols kGerman = with(KeyboardLayout::american(), "YZ7890-=[];'\\,./\xa1", U"zy7890ß ü+öä#,.-<",
                                U"ZY/()=? Ü*ÖÄ';:_>", U"  {[]}\\  ~      |");
const KeySymbols kFrench = with(KeyboardLayout::american(), "AQZWM;,./1234567890-=\xa1", U"qawz,m;:!&é\"'(-è_çà)=<",
                                U"QAWZ?M./§1234567890°+>", U"            {[|  @ ]}");
const KeySymbols kRussian = with(KeyboardLayout::american(), "QWERTYUIOP[]ASDFGHJKL;'ZXCVBNM,./\\7",
                                 U"йцукенгшщзхъфывапролджэячсмитьбю.\\7", U"ЙЦУКЕНГШЩЗХЪФЫВАПРОЛДЖЭЯЧСМИТЬБЮ,/?");

std::string written(const std::vector<Shortcut>& shortcuts) {
  std::string all;
  for (const Shortcut& s : shortcuts)
    all += std::string(all.empty() ? "" : " ") + (s.ctrl ? "Ctrl+" : "") + (s.alt ? "Alt+" : "") +
           (s.shift ? "Shift+" : "") + s.key;
  return all;
}

/// The marks and letters of the real table, in the order in which a command is found.
app::CommandRegistry commands() {
  app::CommandRegistry registry;
  for (const char* keys : {"/ Ctrl+F",
                           "Shift+/ F1",
                           ".",
                           ",",
                           "Shift+.",
                           "Shift+,",
                           "[",
                           "]",
                           "Shift+[",
                           "Shift+]",
                           "= W Shift+= Shift++ +",
                           "- S",
                           "1",
                           "2",
                           "Ctrl+= Ctrl++ Ctrl+Shift+=",
                           "Ctrl+-",
                           "Ctrl+0",
                           "Ctrl+.",
                           "Alt+.",
                           "Alt+,",
                           "Ctrl+K",
                           "A",
                           "Z"})
    registry.add({keys, keys, "", keys, {}, nullptr, [] {}});
  return registry;
}

}  // namespace

TEST_CASE("A letter goes by the layout's own, and by its place where the layout has no Latin letters") {
  const KeyboardLayout german(kGerman), french(kFrench), russian(kRussian);
  CHECK(written(german.of_press({.code = 'Y', .ctrl = true})) == "Ctrl+z");
  CHECK(written(french.of_press({.code = 'Q'})) == "a");
  CHECK(written(french.of_press({.code = ';', .ctrl = true})) == "Ctrl+m");
  CHECK(written(french.of_press({.code = 'M', .ctrl = true})) == "Ctrl+,");
  CHECK(french.letter('M').empty());
  CHECK(written(russian.of_press({.code = 'K', .ctrl = true})) == "Ctrl+k");
  CHECK(written(russian.of_press({.code = 'P', .shift = true})) == "Shift+p");
  CHECK(russian.letter('V') == "v");
}

TEST_CASE("A mark goes by the character that was typed, and its key alone says nothing") {
  const KeyboardLayout german(kGerman), french(kFrench), russian(kRussian);
  CHECK(german.of_press({.code = '7', .shift = true}).empty());
  CHECK(written(german.of_character('/', {.code = '7', .shift = true})).starts_with("/ "));
  CHECK(written(german.of_character('?', {.code = '-', .shift = true})) == "? Shift+/");
  CHECK(written(german.of_character(':', {.code = '.', .shift = true})) == ": Shift+; Shift+.");
  CHECK(written(french.of_character('1', {.code = '1', .shift = true})).starts_with("1 "));
  CHECK(german.of_character(U'ü', {.code = '['}).empty());
  CHECK(german.of_press({.code = '['}).empty());  // it has a bracket elsewhere
  CHECK(written(russian.of_press({.code = '['})) == "[");
  CHECK(written(russian.of_press({.code = '.', .shift = true})) == "Shift+.");
  CHECK(russian.of_press({.code = '.'}).empty());
  CHECK(german.of_character('a', {.code = 'A'}).empty());
}

TEST_CASE("With Ctrl or Alt the layout says which mark it is, and digits are where they are printed") {
  const KeyboardLayout german(kGerman), french(kFrench);
  CHECK(written(german.of_press({.code = '0', .ctrl = true, .shift = true})).starts_with("Ctrl+= "));
  CHECK(written(german.of_press({.code = ']', .ctrl = true})) == "Ctrl++ Ctrl+Shift+=");
  CHECK(written(french.of_press({.code = '0', .ctrl = true})) == "Ctrl+0");
  CHECK(written(french.of_press({.code = '1', .ctrl = true})) == "Ctrl+& Ctrl+Shift+7 Ctrl+1");
  CHECK(written(french.of_press({.code = ',', .shift = true, .alt = true})).starts_with("Alt+. "));
}

TEST_CASE("Menus name the keys that this layout needs, and none that means something else there") {
  const app::CommandRegistry registry = commands();
  app::ShortcutTexts texts(registry);
  const auto of = [&](const char* keys) { return texts.all(*registry.find(std::string_view(keys))); };
  CHECK(of("/ Ctrl+F") == "/ Ctrl+F");
  CHECK(of("Shift+/ F1") == "Shift+/ F1");
  CHECK(of("= W Shift+= Shift++ +") == "= W Shift+=");
  texts.use(KeyboardLayout(kGerman));
  CHECK(of("/ Ctrl+F") == "Shift+7 Ctrl+F");
  CHECK(of("Shift+/ F1") == "Shift+ß F1");
  CHECK(of("Shift+.") == "Shift+.");
  CHECK(of("[") == "AltGr+8");
  CHECK(of("Shift+[") == "AltGr+7");
  CHECK(of("Ctrl+= Ctrl++ Ctrl+Shift+=") == "Ctrl+Shift+0 Ctrl++");
  CHECK(of("Ctrl+K") == "Ctrl+K");
  texts.use(KeyboardLayout(kFrench));
  CHECK(of("1") == "Shift+&");
  CHECK(of("Ctrl+0") == "Ctrl+0");
  CHECK(of("Shift+,") == "<");
  CHECK(of("Alt+.") == "Alt+Shift+;");
  texts.use(KeyboardLayout(kRussian));
  CHECK(of("/ Ctrl+F") == "Shift+\\ Ctrl+F");
  CHECK(of("[") == "х");
  CHECK(of(",") == "Shift+.");
  CHECK(of("Shift+,") == "Shift+б");
}
