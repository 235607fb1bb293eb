// Chat templates of the families with edits, against what transformers makes of them (make_chat_variants.py).
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "tests/support/golden.h"

using kvscope::ChatMessage;
using kvscope::ChatOptions;
using kvscope::ChatTemplate;
using kvscope::Error;
using nlohmann::json;

namespace {

struct Count {
  int variants = 0, accepted = 0, equal = 0;
};

std::optional<ChatTemplate> accepted(const json& variant) {
  kvscope::ChatTokens tokens;
  if (!variant["bos"].is_null()) tokens["bos_token"] = variant["bos"].get<std::string>();
  try {
    return ChatTemplate::from_text(variant["text"].get<std::string>(), tokens, "f", "w");
  } catch (const Error&) {
    return {};
  }
}

/// Hash of the conversation's text, or null if it is refused.
json hash_of(const ChatTemplate& chat, const json& talk, const json& ask) {
  std::vector<ChatMessage> messages;
  for (const json& m : talk) messages.push_back({m[0].get<std::string>(), m[1].get<std::string>()});
  ChatOptions options{.thinking = {}, .add_generation_prompt = ask[1].get<bool>(), .date = ""};
  if (chat.has_date()) options.date = ask[3].get<std::string>();
  if (!ask[2].is_null()) options.thinking = ask[2].get<bool>();
  try {
    return kvscope::hex_text(kvscope::fnv1a64(chat.render(messages, options)));
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

TEST_CASE("A chat template with edits is refused, or written as transformers writes it") {
  const char* other = std::getenv("KVSCOPE_CHAT_VARIANTS");
  const json golden =
      kvscope::test::read_golden(other ? std::filesystem::absolute(other) : "tests/core/golden/chat_variants.json");
  Count edited, same;
  for (const json& variant : golden["variants"]) {
    CAPTURE(variant["family"], variant["edit"], variant["text"], variant["bos"]);
    const bool is_same = variant["edit"].is_null() || variant["edit"] == "respelled";
    Count& count = is_same ? same : edited;
    ++count.variants;
    const auto chat = accepted(variant);
    if (is_same) REQUIRE(chat);
    if (!chat) continue;
    ++count.accepted;
    for (std::size_t i = 0; i < golden["asks"].size(); ++i) {
      const json &ask = golden["asks"][i], &wanted = variant["hashes"][i];
      CAPTURE(ask);
      // The golden file's clock has the template's date; --date sets both.
      const bool has_clock = variant["text"].get_ref<const std::string&>().find("{{ strftime_now") != std::string::npos;
      if (has_clock && !ask[3].get_ref<const std::string&>().empty()) continue;
      const json hash = hash_of(*chat, golden["talks"][ask[0].get<std::size_t>()], ask);
      // A choice of thinking is refused where the template has none.
      if (is_same && ask[2].is_null()) CHECK(hash == wanted);
      if (!hash.is_null()) CHECK(hash == wanted);
      count.equal += !hash.is_null();
    }
  }
  std::printf("chat variants: %d of %d edited ones accepted, %d conversations equal\n", edited.accepted,
              edited.variants, edited.equal);
  CHECK(edited.variants >= 300);
  CHECK(same.accepted >= 50);
  CHECK(edited.accepted * 5 >= edited.variants * 2);
  CHECK(edited.equal >= 10 * edited.accepted);
}
