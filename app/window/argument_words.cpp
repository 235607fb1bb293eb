#include "app/window/argument_words.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "engine/core/support/trim.h"

namespace kvscope::app {
namespace {

struct Word {
  std::string_view name, word;
};

// Where a control has a name for it. A name that is not here is read with spaces.
constexpr Word kWords[] = {{"kv_head", "KV head"},
                           {"q", "query"},
                           {"n", "max new tokens"},
                           {"a", "A"},
                           {"b", "B"},
                           {"kind", "budget as"},
                           {"begin", "from"},
                           {"end", "up to"},
                           {"repetition_penalty", "repetition"}};
// Of `kind`: the buttons over the budget.
constexpr Word kBudgets[] = {{"keep", "keep %"}, {"compression", "compression"}};

std::string word_of(const Argument& argument) {
  if (argument.name == "id" && argument.kind == "run id") return "run";
  for (const auto& [known, word] : kWords) {
    if (known == argument.name) return std::string(word);
  }
  std::string spaced = argument.name;
  std::ranges::replace(spaced, '_', ' ');
  return spaced;
}

bool begins_with_word(std::string_view text, std::string_view word) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return text.size() >= word.size() && std::equal(word.begin(), word.end(), text.begin(), same) &&
         (text.size() == word.size() || text[word.size()] == ' ');
}

std::string budget_name(std::string value) {
  for (const auto& [name, word] : kBudgets) {
    if (begins_with_word(value, word)) return std::string(name);
  }
  return value;
}

// "KV head 3" as "kv_head 3"; what begins with no argument's name or word as it is. The longest counts: "budget as tokens" is
// no budget.
std::string named_part(const std::vector<Argument>& arguments, const std::string& part) {
  const std::string_view text = trim(part);
  const Argument* found = nullptr;
  std::size_t length = 0;
  for (const Argument& argument : arguments) {
    for (const std::string& said : {argument.name, word_of(argument)}) {
      if (said.size() > length && begins_with_word(text, said)) found = &argument, length = said.size();
    }
  }
  if (found == nullptr) return part;
  std::string value(trim(text.substr(length)));
  if (found->name == "kind") value = budget_name(value);
  return " " + found->name + (value.empty() ? "" : " " + value);
}

}  // namespace

std::string argument_words(const std::vector<Argument>& arguments) {
  std::string text = description(arguments, word_of);
  if (const auto kinds = text.find("tokens|keep|compression"); kinds != std::string::npos)
    text.replace(kinds, std::string_view("tokens|keep|compression").size(), "tokens, keep % or compression");
  return text;
}

std::string with_names(const std::vector<Argument>& arguments, const std::string& typed) {
  if (arguments.size() < 2) return typed;
  std::string line;
  for (std::size_t at = 0; at < typed.size();) {
    const std::size_t end = std::min(typed.find(',', at), typed.size());
    const std::string part = typed.substr(at, end - at);
    line += (at > 0 ? "," : "") + named_part(arguments, part);
    at = end + 1;
  }
  return line;
}

}  // namespace kvscope::app
