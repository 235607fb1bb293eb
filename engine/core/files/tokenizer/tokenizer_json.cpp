#include "engine/core/files/tokenizer/tokenizer_json.h"

#include <algorithm>

#include "engine/core/files/tokenizer/json_steps.h"
#include "engine/core/files/tokenizer/text_steps_json.h"
#include "engine/core/files/tokenizer/tokenizer_events.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_file.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = 64u << 20, kMaxElements = 1u << 23, kMaxAdded = 1u << 16;

class Reader : JsonStepReader {
 public:
  Reader(const json& root, std::string file, TokenizerJson& out)
      : JsonStepReader(std::move(file)), root_(root), out_(out) {}

  void read() {
    const JsonObject top(root_, file_);
    constexpr const char* kKnown[] = {"version",       "truncation",     "padding", "added_tokens", "normalizer",
                                      "pre_tokenizer", "post_processor", "decoder", "model"};
    for (const auto& [key, value] : root_.items()) {
      if (std::find(std::begin(kKnown), std::end(kKnown), key) == std::end(kKnown)) fail(key, "unknown key", "");
    }
    if (const std::string version = top.text_or("version", "1.0"); version != "1.0") {
      fail("version", in_quotes(version), "\"1.0\"");
    }
    read_model();
    if (top.has("added_tokens")) read_added(root_["added_tokens"]);
    out_.steps = read_text_steps(root_, file_);
    if (top.has("post_processor")) read_post_processor(root_["post_processor"], "post_processor");
  }

 private:
  void read_model() {
    if (!root_.contains("model")) fail("model", "missing", "an object");
    const json& raw = root_["model"];
    const JsonObject model(raw, file_, "model");
    if (const std::string type = model.text_or("type", "BPE"); type != "BPE") unsupported("model", type, "\"BPE\"");
    if (model.number_or("dropout", 0, 0, 1) != 0) {
      fail("model.dropout", "not 0", "null: with dropout the ids of a text are random");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (const std::string affix = model.text_or(key, ""); !affix.empty()) {
        fail(std::string("model.") + key, in_quotes(affix) + " is not supported", "null");
      }
    }
    // Of no effect where every byte has a token, which is asked for; another type shows a damaged file.
    for (const char* key : {"byte_fallback", "fuse_unk"}) model.boolean_or(key, false);
    model.text_or("unk_token", "");
    out_.ignore_merges = model.boolean_or("ignore_merges", false);
    out_.byte_fallback = model.boolean_or("byte_fallback", false);
    out_.fuse_unk = model.boolean_or("fuse_unk", false);
    if (model.has("unk_token")) out_.unk_token = model.text("unk_token");
  }

  void read_added(const json& list) {
    if (!list.is_array()) fail("added_tokens", "not a list", "a list");
    if (list.size() > kMaxAdded)
      fail("added_tokens", std::to_string(list.size()) + " tokens", "at most " + std::to_string(kMaxAdded));
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string where = "added_tokens[" + std::to_string(i) + "]";
      const JsonObject item(list[i], file_, where);
      AddedToken token;
      token.id = static_cast<std::int32_t>(item.integer("id", 0, kMaxTokenId));
      token.content = item.text("content");
      if (token.content.empty()) fail(where + ".content", "empty", "text");
      token.single_word = item.boolean_or("single_word", false);
      token.lstrip = item.boolean_or("lstrip", false);
      token.rstrip = item.boolean_or("rstrip", false);
      token.special = item.boolean_or("special", false);
      token.normalized = item.boolean_or("normalized", !token.special);
      out_.added.push_back(std::move(token));
    }
  }

  void read_post_processor(const json& raw, const std::string& where) {
    const JsonObject object(raw, file_, where);
    const std::string type = object.text("type");
    if (type == "ByteLevel") return;  // moves offsets, not ids
    if (type == "Sequence") {
      const json& list = elements(raw, where, "processors");
      for (std::size_t i = 0; i < list.size(); ++i) read_post_processor(list[i], where + "[" + std::to_string(i) + "]");
    } else if (type == "TemplateProcessing") {
      read_template(raw, where);
    } else {
      unsupported(where, type, "\"ByteLevel\", \"TemplateProcessing\" or null");
    }
  }

  /// {"single": [{"SpecialToken": {"id": name}}, {"Sequence": {"id": "A"}}, ...], "special_tokens": {name: {"ids":
  /// [...]}}}
  void read_template(const json& raw, const std::string& where) {
    const json& single = elements(raw, where, "single");
    bool after = false;
    for (std::size_t i = 0; i < single.size(); ++i) {
      const std::string place = where + ".single[" + std::to_string(i) + "]";
      const json& item = single[i];
      if (item.is_object() && item.contains("Sequence") && !after) {
        after = true;
      } else if (item.is_object() && item.contains("SpecialToken")) {
        const std::string name = JsonObject(item["SpecialToken"], file_, place).text("id");
        append_special(raw, name, where, after ? out_.after : out_.before);
      } else {
        fail(place, "neither a special token nor the one text", "{\"SpecialToken\": ...} or {\"Sequence\": ...}");
      }
    }
    if (!after) fail(where + ".single", "no entry for the text", "{\"Sequence\": ...}");
  }

  void append_special(const json& raw, const std::string& name, const std::string& where,
                      std::vector<std::int32_t>& to) {
    const std::string place = where + ".special_tokens." + name;
    const auto specials = raw.find("special_tokens");
    if (specials == raw.end() || !specials->is_object() || !specials->contains(name)) fail(place, "missing", "its ids");
    const json& entry = (*specials)[name];
    const JsonObject object(entry, file_, place);
    for (const json& id : elements(entry, place, "ids")) {
      const json lent = {{"ids", id}};
      to.push_back(static_cast<std::int32_t>(JsonObject(lent, file_, place).integer("ids", 0, kMaxTokenId)));
    }
  }

  const json& root_;
  TokenizerJson& out_;
};

}  // namespace

TokenizerJson TokenizerJson::load(const std::filesystem::path& path) {
  const std::string file = path.string();
  TokenizerJson out;
  json root;
  bool has_vocab = false, has_merges = false;
  {
    const std::string bytes = read_file(path, kMaxBytes);
    if (const auto foreign = recognise_foreign(bytes)) {
      throw Error({.file = file, .found = foreign->found + ", not a tokenizer", .hint = foreign->hint});
    }
    TokenizerEvents events(file, out);
    stream_json(bytes, file, {.max_bytes = kMaxBytes, .max_depth = 32, .max_elements = kMaxElements}, events);
    has_vocab = events.has_vocab, has_merges = events.has_merges;
    root = events.take();
  }
  // The type first: a Unigram's vocab is a list, and saying so would hide the reason.
  Reader(root, file, out).read();
  if (!has_vocab)
    throw Error({.file = file, .where = "model.vocab", .found = "missing or not an object", .expected = "{token: id}"});
  if (!has_merges)
    throw Error({.file = file, .where = "model.merges", .found = "missing or not a list", .expected = "a list"});
  return out;
}

}  // namespace kvscope
