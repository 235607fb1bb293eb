#pragma once
// The tokens that stand beside tokenizer.json. Private to tokenizer/.

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/tokenizer/added_vocabulary.h"
#include "engine/core/files/tokenizer/tokenizer_json.h"

namespace kvscope {

/// tokenizer_config.json, special_tokens_map.json and added_tokens.json of a folder. None of them stops a run: one that
/// cannot be read is {}, and a warning says so.
class TokenizerFiles {
 public:
  static constexpr const char *kConfig = "tokenizer_config.json", *kMap = "special_tokens_map.json",
                              *kAdded = "added_tokens.json";
  TokenizerFiles(std::filesystem::path folder, std::vector<std::string>& warnings);
  const nlohmann::json& config() const { return config_; }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  nlohmann::json read(const char* name) const;
  /// Keys of the file, or of an object in it, as they stand there: nlohmann::json sorts them.
  std::vector<std::string> keys_in_order(const char* name, const char* within = nullptr) const;

 private:
  std::filesystem::path folder_;
  std::vector<std::string>& warnings_;
  nlohmann::json config_;
};

/// "bos_token", "image_token", but not add_bos_token.
bool is_name_of_token(std::string_view key);

class ConfiguredTokens {
 public:
  /// `default_name`: what eos_token, unk_token and pad_token are where no file says it; empty: nothing. `spec` is the
  /// folder's tokenizer.json. Throws Error for what is no token.
  ConfiguredTokens(const TokenizerFiles& files, const TokenizerJson& spec, const std::string& default_name);

  /// What transformers 5 adds to the tokens that are there, in its order.
  std::vector<AddedToken> beyond(const AddedVocabulary& there) const;
  /// All that have a name or are called special, with no flags.
  std::vector<AddedToken> all_special() const;

 private:
  struct Named {
    std::string key;  // empty of those that are only called special
    AddedToken token;
    bool is_text = true;  // no object with flags
    /// As Python compares them.
    bool is_same(const Named& other) const { return is_text == other.is_text && token == other.token; }
  };
  std::optional<Named> token_of(const nlohmann::json& value, const char* name, const std::string& where) const;
  void read_decoder();
  void read_names(bool has_decoder, const std::string& default_name);
  void read_extra(const nlohmann::json& object, const char* key, const char* name);
  void read_old_files(const TokenizerJson& spec);
  bool is_named(const std::string& content) const;
  bool is_extra(const std::string& content) const;

  const TokenizerFiles& files_;
  std::map<std::int64_t, AddedToken> decoder_;
  std::vector<Named> named_;
  std::vector<Named> extra_;
};

}  // namespace kvscope
