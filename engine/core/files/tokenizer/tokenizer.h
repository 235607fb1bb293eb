#pragma once
// BPE from tokenizer.json, of bytes or of characters, as the `tokenizers` package does it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

enum class ReadTokens;

class Tokenizer {
 public:
  /// Reads `folder`/tokenizer.json and the tokens that stand beside it (tokenizer_config.h). Throws Error naming the key
  /// for whatever is malformed or not supported.
  static Tokenizer load(const std::filesystem::path& folder);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Ids of raw text, without any that the post-processor would add. Special tokens in the text become their ids if
  /// `parse_special`, else stay text; added tokens that are not special are found in both cases, as the package does.
  /// Bytes that are not UTF-8 are kept: decode(encode(x)) is x, unless a normaliser or a stripping token changes it, or
  /// a byte or character has no token (SmolLM2 lacks 21 bytes): it becomes the unknown token, which prints its own text.
  /// Safe from several threads.
  std::vector<std::int32_t> encode(std::string_view utf8, bool parse_special = true) const;
  /// Ids of what a person typed in a chat: no special token is read, nor any other of the form <...>, which templates
  /// write too (<think>, <tool_call>).
  /// `at_start`: no token goes before it (where some families put a blank before the text's first word).
  std::vector<std::int32_t> encode_typed(std::string_view utf8, bool at_start = true) const;
  /// Ids of a chat: where a template wrote it (`is_written`, of each byte), a token is read; the rest is as typed.
  std::vector<std::int32_t> encode_chat(std::string_view utf8, const std::vector<bool>& is_written) const;
  /// encode() with the post-processor's ids around it (<|begin_of_text|> of Llama 3).
  std::vector<std::int32_t> encode_with_special(std::string_view utf8) const;
  /// Bytes of one token in the midst of a text: may be part of a character. Special tokens give their text. Empty for an
  /// id that has no token (an embedding table often has more rows than the tokenizer has tokens).
  std::string_view piece(std::int32_t id) const;
  /// Bytes of a text's first token: without the blank that the decoder takes from the beginning (Llama 2), if it does.
  std::string_view first_piece(std::int32_t id) const;
  /// Bytes of a whole text: first_piece() and the other pieces joined; invalid UTF-8 is left as it is.
  std::string decode(const std::vector<std::int32_t>& ids) const;
  /// The same of ids that go on from others: all blanks stay.
  std::string decode_further(const std::vector<std::int32_t>& ids) const;
  bool is_special(std::int32_t id) const;
  /// The id of an added token by its text, such as "<|im_end|>".
  std::optional<std::int32_t> added_token(std::string_view content) const;
  /// What encode_with_special() puts first, if anything.
  std::optional<std::int32_t> first_id() const;
  /// One line each: what the files say that could make other ids elsewhere.
  const std::vector<std::string>& warnings() const;
  /// The highest id + 1.
  int vocab_size() const;

 private:
  struct Impl;
  std::vector<std::int32_t> encode(std::string_view utf8, ReadTokens read, bool at_start,
                                   const std::vector<bool>* is_written = nullptr) const;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvscope
