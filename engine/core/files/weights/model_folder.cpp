#include "engine/core/files/weights/model_folder.h"

#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

/// Many fine-tunes add a [PAD] and leave the embedding as it was: every prompt without it runs.
void warn_of_tokens_past_the_embedding(ModelFolder& model, const std::filesystem::path& folder) {
  const int n = model.tokenizer.vocab_size() - model.config.vocab_size;
  if (n <= 0) return;
  const std::int32_t first = model.config.vocab_size;
  const std::string token = in_quotes(model.tokenizer.piece(first)) + ", id " + std::to_string(first);
  model.warnings.push_back((folder / "tokenizer.json").string() + ": " +
                           (n == 1 ? token + ", is" : std::to_string(n) + " tokens, " + token + " and up, are") +
                           " beyond the embedding's " + std::to_string(first) + " rows: no prompt may contain " +
                           (n == 1 ? "it" : "them"));
}

/// Both in the file and not the same: transformers 5 takes the file's head, older versions and vLLM the embedding.
void untie_own_head(ModelFolder& model, const std::filesystem::path& folder) {
  const TensorNames& names = model.config.family->names;
  const std::string head = std::string(names.lm_head) + ".weight", embedding = std::string(names.embedding) + ".weight";
  if (!model.config.tie_word_embeddings || !model.weights.has(head) || !model.weights.has(embedding)) return;
  if (model.weights.same(head, embedding)) return;
  model.config.tie_word_embeddings = false;
  model.warnings.push_back((folder / "config.json").string() + ": tie_word_embeddings: true, but the weights have " +
                           head +
                           ", which differs from the embedding. KVScope uses it, as transformers 5 does "
                           "(transformers 4 and vLLM do not)");
}

}  // namespace

ModelFolder ModelFolder::open(const std::filesystem::path& folder) {
  ModelConfig config = ModelConfig::load(folder);
  Tokenizer tokenizer = Tokenizer::load(folder);
  ModelFolder model{std::move(config), std::move(tokenizer), WeightFiles::open(folder), {}};
  model.warnings = model.config.warnings;
  const std::vector<std::string>& more = model.tokenizer.warnings();
  model.warnings.insert(model.warnings.end(), more.begin(), more.end());
  warn_of_tokens_past_the_embedding(model, folder);
  untie_own_head(model, folder);
  return model;
}

void check_token_ids(const std::vector<std::int32_t>& ids, int vocab_size, const Tokenizer* tokenizer) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    const std::string_view token = tokenizer != nullptr ? tokenizer->piece(id) : std::string_view();
    refuse("prompt", "", "token id " + std::to_string(id) + (token.empty() ? "" : ", " + in_quotes(token)),
           "0 ... " + std::to_string(vocab_size - 1),
           token.empty() ? "" : "the model's embedding has no row for this token: leave it out");
  }
}

}  // namespace kvscope
