#include "engine/core/files/tokenizer/configured_tokens.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "engine/core/support/json_file.h"
#include "engine/core/support/python_json.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = 16u << 20, kMaxTokens = 1u << 16;

/// The order in which transformers numbers them.
constexpr std::string_view kNamed[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
constexpr const char *kAdditional = "additional_special_tokens", *kExtra = "extra_special_tokens";

AddedToken special_token(const std::string& content) {
  AddedToken token;
  token.content = content;
  token.special = true;
  return token;
}

void check_count(const json& list, const std::string& file, const std::string& where) {
  if (list.size() > kMaxTokens) refuse(file, where, std::to_string(list.size()) + " tokens", "at most 65536");
}

template <typename List, typename Entry>
void put(List& list, Entry entry) {
  const auto it = std::ranges::find(list, entry.key, &Entry::key);
  if (it == list.end()) return list.push_back(std::move(entry));
  *it = std::move(entry);
}

}  // namespace

TokenizerFiles::TokenizerFiles(std::filesystem::path folder, std::vector<std::string>& warnings)
    : folder_(std::move(folder)), warnings_(warnings), config_(read(kConfig)) {}

json TokenizerFiles::read(const char* name) const {
  std::error_code error;
  if (!std::filesystem::exists(folder_ / name, error)) return json::object();
  try {
    json found = read_python_json(folder_ / name, {.max_bytes = kMaxBytes});
    const JsonObject check(found, path(name));
    return found;
  } catch (const Error& failure) {
    warnings_.push_back(std::string(failure.what()) + "; tokens listed only in this file stay text");
    return json::object();
  }
}

std::vector<std::string> TokenizerFiles::keys_in_order(const char* name, const char* within) const {
  // read() has checked its size and depth.
  const auto whole = nlohmann::ordered_json::parse(quote_non_numbers(read_file(folder_ / name, kMaxBytes)));
  std::vector<std::string> keys;
  for (const auto& [key, value] : (within != nullptr ? whole.at(within) : whole).items()) keys.push_back(key);
  return keys;
}

bool is_name_of_token(std::string_view key) {
  return key.ends_with("_token") && key != "add_bos_token" && key != "add_eos_token";
}

ConfiguredTokens::ConfiguredTokens(const TokenizerFiles& files, const TokenizerJson& spec,
                                   const std::string& default_name)
    : files_(files) {
  const bool has_decoder = files.config().contains("added_tokens_decoder");
  if (has_decoder) read_decoder();
  read_names(has_decoder, default_name);
  if (!has_decoder) read_old_files(spec);
}

/// {"content": ..., flags}; transformers writes "__type": "AddedToken" beside them.
std::optional<ConfiguredTokens::Named> ConfiguredTokens::token_of(const json& value, const char* name,
                                                                  const std::string& where) const {
  if (value.is_string()) return Named{where, special_token(value.get<std::string>())};
  if (!value.is_object() || !value.contains("content")) return std::nullopt;
  const JsonObject object(value, files_.path(name), where);
  AddedToken token;
  token.content = object.text("content");
  token.special = object.boolean_or("special", name == TokenizerFiles::kMap);
  token.single_word = object.boolean_or("single_word", false);
  token.lstrip = object.boolean_or("lstrip", false);
  token.rstrip = object.boolean_or("rstrip", false);
  token.normalized = object.boolean_or("normalized", !token.special);
  return Named{where, std::move(token), false};
}

void ConfiguredTokens::read_decoder() {
  const json& raw = files_.config()["added_tokens_decoder"];
  const std::string file = files_.path(TokenizerFiles::kConfig);
  const JsonObject check(raw, file, "added_tokens_decoder");
  check_count(raw, file, "added_tokens_decoder");
  for (const auto& [key, value] : raw.items()) {
    const std::string where = "added_tokens_decoder." + escape_for_terminal(key, 60);
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) refuse(file, where, "not an id", "a number");
    auto token = token_of(value, TokenizerFiles::kConfig, where);
    if (!token || token->is_text) refuse(file, where, "not a token", "{\"content\": ...}");
    decoder_.insert_or_assign(id, std::move(token->token));
  }
}

void ConfiguredTokens::read_names(bool has_decoder, const std::string& default_name) {
  std::vector<Named> own, texts, objects;  // of the seven names; of others, which come after them
  const auto take = [&](const json& object, const std::string& key, const char* name) {
    auto token = token_of(object[key], name, key);
    if (!token) return;
    const bool is_own = std::ranges::find(kNamed, key) != std::end(kNamed);
    const bool is_early = token->is_text && name == TokenizerFiles::kConfig;
    put(is_own ? own : is_early ? texts : objects, std::move(*token));
  };
  const json& config = files_.config();
  for (const char* key : {"eos_token", "unk_token", "pad_token"}) {
    if (!default_name.empty() && !config.contains(key)) own.push_back({key, special_token(default_name)});
  }
  for (const std::string& key : config.empty() ? std::vector<std::string>() : files_.keys_in_order(files_.kConfig)) {
    if (is_name_of_token(key)) take(config, key, files_.kConfig);
  }
  // Where there are extra_special_tokens, transformers forgets the additional ones.
  const bool has_extra = config.contains(kExtra), has_additional = config.contains(kAdditional);
  if (has_extra || has_additional) read_extra(config, has_extra ? kExtra : kAdditional, files_.kConfig);
  if (has_extra && config[kExtra].is_object()) {
    for (const std::string& key : files_.keys_in_order(files_.kConfig, kExtra))
      take(config[kExtra], key, files_.kConfig);
  }
  if (const json map = has_decoder ? json::object() : files_.read(files_.kMap); !map.empty()) {
    for (const std::string& key : files_.keys_in_order(files_.kMap)) {
      if (is_name_of_token(key)) take(map, key, files_.kMap);
    }
    read_extra(map, kExtra, files_.kMap);
    const bool is_free = has_extra ? config[kExtra].is_object() : !has_additional;
    if (is_free && !map.contains(kExtra)) read_extra(map, kAdditional, files_.kMap);
  }
  for (const std::string_view key : kNamed) {
    const auto it = std::ranges::find(own, key, &Named::key);
    if (it != own.end()) named_.push_back(std::move(*it));
  }
  for (auto* list : {&objects, &texts}) {
    for (Named& one : *list) put(named_, std::move(one));
  }
}

void ConfiguredTokens::read_extra(const json& object, const char* key, const char* name) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) return;
  check_count(*it, files_.path(name), key);
  for (const json& element : *it) {
    if (auto token = token_of(element, name, key)) extra_.push_back(std::move(*token));
  }
}

/// Only where there is no added_tokens_decoder: transformers makes one of these.
void ConfiguredTokens::read_old_files(const TokenizerJson& spec) {
  const std::string file = files_.path(TokenizerFiles::kAdded);
  const json added = files_.read(TokenizerFiles::kAdded);
  const JsonObject object(added, file);
  check_count(added, file, "");
  for (const std::string& content : added.empty() ? std::vector<std::string>() : files_.keys_in_order(files_.kAdded)) {
    AddedToken token;
    token.content = content;
    token.special = is_named(content) || is_extra(content);
    token.normalized = !token.special;
    decoder_.insert_or_assign(object.integer(content, 0, kMaxTokenId), std::move(token));
  }
  for (AddedToken token : spec.added) {
    const std::int64_t written = token.id;
    token.id = 0;
    decoder_.insert_or_assign(written, std::move(token));
  }
}

bool ConfiguredTokens::is_named(const std::string& content) const {
  return std::ranges::any_of(named_, [&](const Named& n) { return n.token.content == content; });
}

bool ConfiguredTokens::is_extra(const std::string& content) const {
  return std::ranges::any_of(extra_, [&](const Named& n) { return n.token.content == content; });
}

std::vector<AddedToken> ConfiguredTokens::beyond(const AddedVocabulary& there) const {
  std::vector<AddedToken> out;
  std::set<std::string> known;
  for (const auto& [content, id] : there.ids()) known.insert(content);
  for (const auto& [id, token] : decoder_) {
    out.push_back(token);
    out.back().special = token.special || is_named(token.content);
    known.insert(token.content);
  }
  std::vector<const Named*> added;
  for (const auto* list : {&named_, &extra_}) {
    for (const Named& one : *list) {
      const bool again = std::ranges::any_of(added, [&](const Named* other) { return one.is_same(*other); });
      if (again || known.contains(one.token.content)) continue;
      added.push_back(&one);
      out.push_back(one.token);
      out.back().special = one.token.special || is_named(one.token.content);
    }
  }
  return out;
}

std::vector<AddedToken> ConfiguredTokens::all_special() const {
  std::vector<AddedToken> out;
  std::set<std::string> seen;
  for (const auto* list : {&named_, &extra_}) {
    for (const Named& one : *list) {
      if (seen.insert(one.token.content).second) out.push_back(special_token(one.token.content));
    }
  }
  return out;
}

}  // namespace kvscope
