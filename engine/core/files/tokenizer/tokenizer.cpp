#include "engine/core/files/tokenizer/tokenizer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "engine/core/files/tokenizer/byte_alphabet.h"
#include "engine/core/files/tokenizer/normalizer.h"
#include "engine/core/files/tokenizer/tokenizer_config.h"
#include "engine/core/files/tokenizer/tokenizer_json.h"
#include "engine/core/files/tokenizer/word_encoder.h"
#include "engine/core/support/refuse.h"

namespace kvscope {

struct Tokenizer::Impl {
  BpeModel bpe;
  TextSteps steps;
  AddedTokenFinder raw_finder, normalized_finder;  // looked for before and after normalisation
  std::vector<std::string> pieces;                 // by id; empty where there is no token
  std::vector<bool> special;                       // by id
  std::map<std::string, std::int32_t, std::less<>> added;
  std::vector<std::int32_t> before, after;
  std::vector<std::string> warnings;

  void build(TokenizerJson spec, const std::filesystem::path& folder, const std::string& file);
  /// Nothing if the normaliser leaves the text as it is.
  std::optional<std::string> normalized(std::string_view text) const;
  void encode_ordinary(std::string_view text, bool at_start, WordEncoder& words, std::deque<std::string>& made) const;

 private:
  void set_piece(std::int32_t id, const std::string& token, bool is_text);
  void add_added(const AddedVocabulary& vocabulary);
  void warn_of_ids(const std::vector<AddedToken>& written, const std::string& file);
  void check_template(const std::string& file) const;
  void encode_bytes(std::string_view text, WordEncoder& words) const;
  void encode_characters(std::string_view text, WordEncoder& words) const;
};

/// `is_text`: an added token, which is not written in ByteLevel's alphabet.
void Tokenizer::Impl::set_piece(std::int32_t id, const std::string& token, bool is_text) {
  const auto i = static_cast<std::size_t>(id);
  if (pieces.size() <= i) pieces.resize(i + 1), special.resize(i + 1);
  if (steps.of_characters) {
    pieces[i] = printed_token(token);
  } else {
    pieces[i] = is_text ? token : bytes_of_token(token).value_or(token);
  }
}

std::optional<std::string> Tokenizer::Impl::normalized(std::string_view text) const {
  std::optional<std::string> out;
  if (steps.nfc && !is_surely_nfc(text)) out = to_nfc(text);
  if (steps.normalizer.changes()) out = mark_blanks(steps.normalizer, out ? *out : text, false);
  return out;
}

void Tokenizer::Impl::add_added(const AddedVocabulary& vocabulary) {
  const auto shown = [&](const AddedToken& token) {
    return token.normalized ? normalized(token.content).value_or(token.content) : token.content;
  };
  for (const auto& [id, token] : vocabulary.tokens()) {
    // Found with the blank that the normaliser puts before it, it prints that blank; so does the package.
    set_piece(id, steps.of_characters ? shown(token) : token.content, true);
    special[id] = vocabulary.is_special(token.content);
  }
  added = vocabulary.ids();
  std::vector<AddedToken> raw, later;
  std::vector<std::string> raw_text, normalized_text;
  for (AddedToken& token : vocabulary.patterns()) {
    (token.normalized ? normalized_text : raw_text).push_back(shown(token));
    (token.normalized ? later : raw).push_back(std::move(token));
  }
  raw_finder = AddedTokenFinder(std::move(raw), std::move(raw_text));
  normalized_finder = AddedTokenFinder(std::move(later), std::move(normalized_text));
}

void Tokenizer::Impl::warn_of_ids(const std::vector<AddedToken>& written, const std::string& file) {
  std::string first;
  int n = 0;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const std::int32_t id = added.at(written[i].content);
    if (id == written[i].id || ++n > 1) continue;
    first = "added_tokens[" + std::to_string(i) + "]: " + in_quotes(written[i].content) + " has id " +
            std::to_string(written[i].id) + " in the file and " + std::to_string(id) + " here";
  }
  if (n == 0) return;
  if (n > 1) first += ", and " + std::to_string(n - 1) + " more ids differ";
  warnings.push_back(file + ": " + first +
                     ": the tokenizers package and transformers number added tokens after the vocabulary");
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

void Tokenizer::Impl::build(TokenizerJson spec, const std::filesystem::path& folder, const std::string& file) {
  steps = spec.steps;
  before = spec.before;
  after = spec.after;
  const TokenIds ids(spec.vocab, file);
  bpe = make_bpe_model(spec, ids, file);
  for (const auto& [token, id] : spec.vocab) set_piece(id, token, false);
  AddedVocabulary vocabulary(ids);
  vocabulary.add(spec.added);
  add_configured_tokens(folder, spec, ids, vocabulary, warnings);
  add_added(vocabulary);
  warn_of_ids(spec.added, file);
  check_template(file);
}

void Tokenizer::Impl::encode_bytes(std::string_view text, WordEncoder& words) const {
  while (!text.empty()) {
    const std::size_t end = text.size() - piece_length(steps.digits, text);
    while (text.size() > end) {
      const std::size_t n = word_length(steps.split, text.substr(0, text.size() - end));
      words.add(text.substr(0, n));
      text.remove_prefix(n);
    }
  }
}

/// Where no merge puts a mark after the character before it, cutting there gives the same ids, and faster: the words of
/// a text are few, and remembered. Not with ignore_merges, which asks for the whole of it.
void Tokenizer::Impl::encode_characters(std::string_view text, WordEncoder& words) const {
  const bool cuts = steps.split_at_blanks || (bpe.before_marks && !bpe.ignore_merges);
  const auto joins = [&](std::size_t at) {
    return !steps.split_at_blanks && bpe.before_marks->test(static_cast<unsigned char>(text[at - 1]));
  };
  while (!text.empty()) {
    std::size_t n = cuts ? length_to_mark(text, !steps.split_at_blanks) : text.size();
    while (n < text.size() && joins(n)) n += length_to_mark(text.substr(n), true);
    words.add(text.substr(0, n));
    text.remove_prefix(n);
  }
}

/// `made` keeps the texts that are not part of the caller's, as long as `words` refers to them.
void Tokenizer::Impl::encode_ordinary(std::string_view text, bool at_start, WordEncoder& words,
                                      std::deque<std::string>& made) const {
  if (steps.metaspace.changes()) text = made.emplace_back(mark_blanks(steps.metaspace, text, at_start));
  if (steps.add_prefix_space && !text.starts_with(' ')) text = made.emplace_back(1, ' ').append(text);
  if (steps.of_characters) return encode_characters(text, words);
  encode_bytes(text, words);
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer.json";
  auto impl = std::make_unique<Impl>();
  impl->build(TokenizerJson::load(path), folder, path.string());
  return Tokenizer(std::move(impl));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view utf8, bool parse_special) const {
  return encode(utf8, parse_special ? ReadTokens::all : ReadTokens::not_special, true);
}

std::vector<std::int32_t> Tokenizer::encode_typed(std::string_view utf8, bool at_start) const {
  return encode(utf8, ReadTokens::not_markup, at_start);
}

std::vector<std::int32_t> Tokenizer::encode_chat(std::string_view utf8, const std::vector<bool>& is_written) const {
  return encode(utf8, ReadTokens::not_markup, true, &is_written);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view utf8, ReadTokens read, bool at_start,
                                            const std::vector<bool>* is_written) const {
  /// Whether a template wrote all of text[start, stop), if the text begins at utf8[offset].
  const auto written = [&](std::size_t offset) -> AddedTokenFinder::MayRead {
    if (!is_written) return {};
    const auto first = is_written->begin() + static_cast<std::ptrdiff_t>(offset);
    return [first](const AddedToken& token, std::size_t start, std::size_t stop) {
      const auto at = [&](std::size_t i) { return first + static_cast<std::ptrdiff_t>(i); };
      return !token.is_markup() || std::find(at(start), at(stop), false) == at(stop);
    };
  };
  std::vector<std::int32_t> ids;
  ids.reserve(utf8.size() / 3 + 8);
  std::deque<std::string> made;
  WordEncoder words(impl_->bpe, utf8.size(), ids);
  std::vector<AddedTokenFinder::Part> parts, inner;
  impl_->raw_finder.split(utf8, read, parts, written(0));
  for (const AddedTokenFinder::Part& part : parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      continue;
    }
    std::optional<std::string> other = impl_->normalized(part.text);
    const std::string_view text = other ? std::string_view(made.emplace_back(std::move(*other))) : part.text;
    inner.clear();
    // Where the normaliser changed the text, nothing tells who wrote what: its tokens stay text then.
    impl_->normalized_finder.split(text, read, inner,
                                   other ? nullptr : written(static_cast<std::size_t>(part.text.data() - utf8.data())));
    for (const AddedTokenFinder::Part& piece : inner) {
      if (piece.id >= 0) {
        ids.push_back(piece.id);
      } else {
        const bool first = at_start && part.text.data() == utf8.data() && piece.text.data() == text.data();
        impl_->encode_ordinary(piece.text, first, words, made);
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
  std::string text = decode_further(ids);
  if (impl_->steps.strip_leading_blank && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::string Tokenizer::decode_further(const std::vector<std::int32_t>& ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += piece(id);
  return text;
}

std::string_view Tokenizer::first_piece(std::int32_t id) const {
  std::string_view text = piece(id);
  if (impl_->steps.strip_leading_blank && text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

bool Tokenizer::is_special(std::int32_t id) const { return id >= 0 && id < vocab_size() && impl_->special[id]; }

std::optional<std::int32_t> Tokenizer::added_token(std::string_view content) const {
  const auto it = impl_->added.find(content);
  return it == impl_->added.end() ? std::nullopt : std::optional(it->second);
}

std::optional<std::int32_t> Tokenizer::first_id() const {
  return impl_->before.empty() ? std::nullopt : std::optional(impl_->before.front());
}

const std::vector<std::string>& Tokenizer::warnings() const { return impl_->warnings; }

int Tokenizer::vocab_size() const { return static_cast<int>(impl_->pieces.size()); }

}  // namespace kvscope
