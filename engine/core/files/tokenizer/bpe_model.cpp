#include "engine/core/files/tokenizer/bpe_model.h"

#include <algorithm>
#include <optional>

#include "engine/core/files/tokenizer/byte_alphabet.h"
#include "engine/core/support/refuse.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

/// What stands for a symbol without a token, which the package would drop without a word if there were nothing.
void read_unknown(BpeModel& model, const TokenizerJson& spec, const TokenIds& ids, const std::string& file) {
  const auto missing = std::find(std::begin(model.byte_ids), std::end(model.byte_ids), -1);
  model.every_byte = missing == std::end(model.byte_ids);
  if (model.every_byte) return;
  if (!spec.unk_token) {
    refuse(file, "model.vocab", "no token for byte " + std::to_string(missing - std::begin(model.byte_ids)),
           "all 256 bytes, or model.unk_token for the missing ones");
  }
  model.unknown = ids.find(*spec.unk_token);
  if (model.unknown < 0) {
    refuse(file, "model.unk_token", in_quotes(*spec.unk_token) + " is not in the vocabulary", "a token");
  }
  if (!model.of_characters && spec.byte_fallback) {
    refuse(file, "model.byte_fallback", "true, but some of ByteLevel's tokens are missing", "false");
  }
}

void add_symbols(BpeModel& model, const TokenizerJson& spec, const TokenIds& ids) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    if (model.of_characters) {
      token = byte_token(static_cast<unsigned char>(byte));
    } else {
      append_utf8(token, byte_char(static_cast<unsigned char>(byte)));
    }
    model.byte_ids[byte] = model.of_characters && !spec.byte_fallback ? -1 : ids.find(token);
  }
  for (const auto& [token, id] : spec.vocab) {
    if (!model.of_characters || token.empty()) continue;
    const Utf8Char c = decode_utf8(token, 0);
    if (!c.valid || c.length != token.size()) continue;
    if (model.char_ids.size() <= c.code_point) model.char_ids.resize(c.code_point + 1, -1);
    model.char_ids[c.code_point] = id;
  }
}

void add_merges(BpeModel& model, const TokenizerJson& spec, const TokenIds& ids, const std::string& file) {
  model.merges = MergeTable(spec.merges.size());
  if (model.of_characters && ids.contains(kBlankMark)) model.before_marks.emplace();
  std::string merged, next;  // the ways to make a token often follow each other
  std::int32_t merged_id = -1;
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto id_of = [&](const std::string& token) {
      const std::int32_t id = ids.find(token);
      if (id >= 0) return id;
      refuse(file, "model.merges[" + std::to_string(rank) + "]", in_quotes(token) + " is not in the vocabulary",
             "a token");
    };
    const auto& [left, right] = spec.merges[rank];
    const std::int32_t left_id = id_of(left), right_id = id_of(right);
    next.assign(left).append(right);
    if (next != merged) merged_id = id_of(next), merged.swap(next);
    model.merges.set(left_id, right_id, {static_cast<std::int32_t>(rank), merged_id});
    if (!model.before_marks || !right.starts_with(kBlankMark) || left.ends_with(kBlankMark)) continue;
    model.before_marks->set(static_cast<unsigned char>(left.back()));
  }
}

}  // namespace

BpeModel make_bpe_model(const TokenizerJson& spec, const TokenIds& ids, const std::string& file) {
  BpeModel model;
  model.of_characters = spec.steps.of_characters;
  model.fuse_unknown = spec.fuse_unk;
  model.ignore_merges = spec.ignore_merges;
  add_symbols(model, spec, ids);
  read_unknown(model, spec, ids, file);
  add_merges(model, spec, ids, file);
  for (const auto& [token, id] : spec.vocab) {
    if (!model.ignore_merges) break;
    std::optional<std::string> text = model.of_characters ? token : bytes_of_token(token);
    if (text) model.words.emplace(std::move(*text), id);
  }
  return model;
}

}  // namespace kvscope
