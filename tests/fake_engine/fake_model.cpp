#include "tests/fake_engine/fake_model.h"

#include <cctype>
#include <cmath>
#include <filesystem>

#include "engine/core/support/hash.h"

namespace kvscope::fake {
namespace {

constexpr int kLayers = 6, kKvHeads = 4, kVocabulary = 4096;

double uniform(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0, std::uint64_t d = 0) {
  return static_cast<double>(split_mix(split_mix(split_mix(split_mix(a) ^ b) ^ c) ^ d) >> 11) * 0x1p-53;
}

bool has_digit(std::string_view piece) {
  for (const unsigned char c : piece) {
    if (std::isdigit(c)) return true;
  }
  return false;
}

}  // namespace

ModelInfo model_info(const std::string& path) {
  ModelInfo info;
  info.path = path;
  info.name = std::filesystem::path(path).filename().string();
  if (info.name.empty()) info.name = std::filesystem::path(path).parent_path().filename().string();
  info.architecture = "Qwen3ForCausalLM";
  info.dtype = "float32";
  info.device = "cpu (fake)";
  info.weights_hash = info.name.starts_with("other") ? "fedcba9876543210" : "0123456789abcdef";
  info.scorer = "kvpop mlstm, delay 64";
  info.n_layers = kLayers;
  info.n_heads = 2 * kKvHeads;
  info.n_kv_heads = kKvHeads;
  info.head_dim = 64;
  info.vocab_size = kVocabulary;
  info.max_positions = 2048;
  info.n_parameters = 6953472;
  return info;
}

std::int32_t token_id(std::string_view piece) { return static_cast<std::int32_t>(fnv1a64(piece) % kVocabulary); }

void tokenize(const std::string& text, std::vector<std::int32_t>& ids, BytePool& pieces) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = at + 1;
    const bool word = text[at] == ' ' || std::isalnum(static_cast<unsigned char>(text[at]));
    while (word && end < text.size() && std::isalnum(static_cast<unsigned char>(text[end]))) ++end;
    const std::string_view piece = std::string_view(text).substr(at, end - at);
    ids.push_back(token_id(piece));
    pieces.push_back(piece);
    at = end;
  }
}

std::string answer_piece(std::uint64_t seed, int n) {
  static constexpr const char* kWords[] = {" the",  " cache", " keeps", " what", " later", " tokens",
                                           " will", " ask",   " for",   ",",     " and",   " drops",
                                           " the",  " rest",  ".",      " 42",   " 7",     " code"};
  return kWords[split_mix(seed * 1000003 + n) % std::size(kWords)];
}

float score(int layer, int kv_head, int token, std::string_view piece) {
  const double taste = uniform(1, layer, kv_head);
  const double noise = uniform(2, layer * 64 + kv_head, token) + uniform(3, layer * 64 + kv_head, token) - 1;
  const double bonus = has_digit(piece) ? 2.5 * taste : 0;
  return static_cast<float>(2 * noise + bonus + 0.4 * std::sin(0.05 * token * (1 + taste)));
}

float future_mass(int layer, int kv_head, int token, std::string_view piece) {
  const double noise = uniform(4, layer * 64 + kv_head, token) * 2 - 1;
  const double logit = 0.8 * score(layer, kv_head, token, piece) + 1.2 * noise - 6;
  return static_cast<float>(1 / (1 + std::exp(-logit)));
}

float logprob(int token, std::int32_t id) {
  return token == 0 ? std::nanf("") : static_cast<float>(-5 * std::pow(uniform(5, token, id), 3));
}

}  // namespace kvscope::fake
