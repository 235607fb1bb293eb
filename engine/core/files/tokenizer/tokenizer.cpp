#include "engine/core/files/tokenizer/tokenizer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

#include "engine/core/files/tokenizer/byte_alphabet.h"
#include "engine/core/files/tokenizer/normalizer.h"
#include "engine/core/files/tokenizer/tokenizer_json.h"
#include "engine/core/files/tokenizer/word_encoder.h"
#include "engine/core/support/refuse.h"
#include "engine/core/support/utf8.h"

namespace kvscope {

struct Tokenizer::Impl {
  BpeModel bpe;
  SplitPattern split = SplitPattern::gpt2;
  bool nfc = false, add_prefix_space = false;
  AddedTokenFinder raw_finder, normalized_finder;  // looked for before and after normalisation
  std::vector<std::string> pieces;                 // by id; empty where there is no token
  std::vector<bool> special;                       // by id
  std::map<std::string, std::int32_t, std::less<>> added;
  std::vector<std::int32_t> before, after;

  void build(TokenizerJson spec, const std::string& file);
  void encode_ordinary(std::string_view text, WordEncoder& words, std::deque<std::string>& made) const;
  void set_piece(std::int32_t id, std::string bytes);

 private:
  using Ids = std::unordered_map<std::string_view, std::int32_t>;
  Ids add_vocab(const TokenizerJson& spec, const std::string& file);
  void add_merges(const TokenizerJson& spec, const Ids& ids, const std::string& file);
  void add_added(std::vector<AddedToken> tokens, const Ids& ids, const std::string& file);
  void check_template(const std::string& file) const;
};

void Tokenizer::Impl::set_piece(std::int32_t id, std::string bytes) {
  const auto i = static_cast<std::size_t>(id);
  if (pieces.size() <= i) pieces.resize(i + 1), special.resize(i + 1);
  pieces[i] = std::move(bytes);
}

Tokenizer::Impl::Ids Tokenizer::Impl::add_vocab(const TokenizerJson& spec, const std::string& file) {
  Ids ids;
  ids.reserve(spec.vocab.size());
  std::vector<bool> taken;
  for (const auto& [token, id] : spec.vocab) {
    if (taken.size() <= static_cast<std::size_t>(id)) taken.resize(static_cast<std::size_t>(id) + 1);
    if (taken[id]) refuse(file, "model.vocab." + token, "id " + std::to_string(id) + " again", "every id once");
    taken[id] = true;
    ids.emplace(token, id);
    std::optional<std::string> bytes = bytes_of_token(token);
    if (bpe.ignore_merges && bytes) bpe.words.emplace(*bytes, id);
    set_piece(id, bytes ? std::move(*bytes) : token);
  }
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    append_utf8(token, byte_char(static_cast<unsigned char>(byte)));
    const auto it = ids.find(token);
    // The package would drop such bytes from the text without a word.
    if (it == ids.end()) refuse(file, "model.vocab", "no token for byte " + std::to_string(byte), "all 256 bytes");
    bpe.byte_ids[byte] = it->second;
  }
  return ids;
}

void Tokenizer::Impl::add_merges(const TokenizerJson& spec, const Ids& ids, const std::string& file) {
  bpe.merges = MergeTable(spec.merges.size());
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto id_of = [&](const std::string& token) {
      const auto it = ids.find(token);
      if (it == ids.end()) {
        refuse(file, "model.merges[" + std::to_string(rank) + "]", in_quotes(token) + " is not in the vocabulary",
               "a token");
      }
      return it->second;
    };
    const auto& [left, right] = spec.merges[rank];
    const std::int32_t left_id = id_of(left), right_id = id_of(right), merged_id = id_of(left + right);
    bpe.merges.set(left_id, right_id, {static_cast<std::int32_t>(rank), merged_id});
  }
}

void Tokenizer::Impl::add_added(std::vector<AddedToken> tokens, const Ids& ids, const std::string& file) {
  std::vector<AddedToken> raw, normalized;
  std::vector<std::string> raw_text, normalized_text;
  std::map<std::int32_t, std::string_view> by_id;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    AddedToken& token = tokens[i];
    const std::string where = "added_tokens[" + std::to_string(i) + "]";
    const auto it = ids.find(token.content);
    const bool in_vocab = it != ids.end();
    if (in_vocab && it->second != token.id) {
      refuse(file, where + ".id", std::to_string(token.id), std::to_string(it->second) + " as in model.vocab");
    }
    const bool id_taken = !in_vocab && static_cast<std::size_t>(token.id) < pieces.size() && !pieces[token.id].empty();
    if (id_taken || !added.emplace(token.content, token.id).second) {
      refuse(file, where, in_quotes(token.content) + " with id " + std::to_string(token.id) + " again",
             "every token and id once");
    }
    set_piece(token.id, token.content);
    special[token.id] = token.special;
    auto& texts = token.normalized ? normalized_text : raw_text;
    texts.push_back(token.normalized && nfc ? to_nfc(token.content) : token.content);
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  raw_finder = AddedTokenFinder(std::move(raw), std::move(raw_text));
  normalized_finder = AddedTokenFinder(std::move(normalized), std::move(normalized_text));
}

void Tokenizer::Impl::check_template(const std::string& file) const {
  for (const auto* list : {&before, &after}) {
    for (const std::int32_t id : *list) {
      if (static_cast<std::size_t>(id) >= pieces.size()) {
        refuse(file, "post_processor.special_tokens", "id " + std::to_string(id),
               "below " + std::to_string(pieces.size()));
      }
    }
  }
}

void Tokenizer::Impl::build(TokenizerJson spec, const std::string& file) {
  split = spec.split;
  nfc = spec.nfc;
  add_prefix_space = spec.add_prefix_space;
  bpe.ignore_merges = spec.ignore_merges;
  before = spec.before;
  after = spec.after;
  const Ids ids = add_vocab(spec, file);
  add_merges(spec, ids, file);
  add_added(std::move(spec.added), ids, file);
  check_template(file);
}

/// `made` keeps the texts that are not part of the caller's, as long as `words` refers to them.
void Tokenizer::Impl::encode_ordinary(std::string_view text, WordEncoder& words, std::deque<std::string>& made) const {
  if (add_prefix_space && !text.starts_with(' ')) text = made.emplace_back(1, ' ').append(text);
  while (!text.empty()) {
    const std::size_t n = word_length(split, text);
    words.add(text.substr(0, n));
    text.remove_prefix(n);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer.json";
  auto impl = std::make_unique<Impl>();
  impl->build(TokenizerJson::load(path), path.string());
  return Tokenizer(std::move(impl));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view utf8, bool parse_special) const {
  return encode(utf8, parse_special ? ReadTokens::all : ReadTokens::not_special);
}

std::vector<std::int32_t> Tokenizer::encode_typed(std::string_view utf8) const {
  return encode(utf8, ReadTokens::not_markup);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view utf8, ReadTokens read) const {
  std::vector<std::int32_t> ids;
  ids.reserve(utf8.size() / 3 + 8);
  std::deque<std::string> made;
  WordEncoder words(impl_->bpe, utf8.size(), ids);
  std::vector<AddedTokenFinder::Part> parts, inner;
  impl_->raw_finder.split(utf8, read, parts);
  for (const AddedTokenFinder::Part& part : parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      continue;
    }
    const bool change = impl_->nfc && !is_surely_nfc(part.text);
    const std::string_view text = change ? std::string_view(made.emplace_back(to_nfc(part.text))) : part.text;
    inner.clear();
    impl_->normalized_finder.split(text, read, inner);
    for (const AddedTokenFinder::Part& piece : inner) {
      if (piece.id >= 0) {
        ids.push_back(piece.id);
      } else {
        impl_->encode_ordinary(piece.text, words, made);
      }
    }
  }
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_with_special(std::string_view utf8) const {
  std::vector<std::int32_t> ids = encode(utf8);
  ids.insert(ids.begin(), impl_->before.begin(), impl_->before.end());
  ids.insert(ids.end(), impl_->after.begin(), impl_->after.end());
  return ids;
}

std::string_view Tokenizer::piece(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return impl_->pieces[static_cast<std::size_t>(id)];
}

std::string Tokenizer::decode(const std::vector<std::int32_t>& ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += piece(id);
  return text;
}

bool Tokenizer::is_special(std::int32_t id) const { return id >= 0 && id < vocab_size() && impl_->special[id]; }

std::optional<std::int32_t> Tokenizer::added_token(std::string_view content) const {
  const auto it = impl_->added.find(content);
  return it == impl_->added.end() ? std::nullopt : std::optional(it->second);
}

int Tokenizer::vocab_size() const { return static_cast<int>(impl_->pieces.size()); }

}  // namespace kvscope
