#pragma once
// Byte-level BPE from tokenizer.json, as the `tokenizers` package does it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

class Tokenizer {
 public:
  /// Reads `folder`/tokenizer.json. Throws Error naming the key for whatever is malformed or not supported.
  static Tokenizer load(const std::filesystem::path& folder);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Ids of raw text; special tokens in the text become their ids if `parse_special`.
  std::vector<std::int32_t> encode(std::string_view utf8, bool parse_special = true) const;
  /// Bytes of one token: may be part of a character. Special tokens give their text.
  std::string_view piece(std::int32_t id) const;
  /// Bytes of all of them joined; invalid UTF-8 is left as it is.
  std::string decode(const std::vector<std::int32_t>& ids) const;
  bool is_special(std::int32_t id) const;
  int vocab_size() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvscope
