#include "app/studies/rescore/score_attention.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "app/support/table_text.h"
#include "app/support/usage.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

constexpr const char* kExpected = "LAYER:TOKEN,TOKEN..., at most 16 tokens";

int whole(std::string_view text, const std::string& all) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 0)
    usage_error("--attention", in_quotes(all), kExpected);
  return value;
}

}  // namespace

TokenAttentionRequest attention_request(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) usage_error("--attention", in_quotes(text), kExpected);
  TokenAttentionRequest request{.layer = whole(std::string_view(text).substr(0, colon), text)};
  for (std::size_t at = colon + 1; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    request.tokens.push_back(whole(std::string_view(text).substr(at, end - at), text));
    at = end + 1;
  }
  const std::set<std::int32_t> once(request.tokens.begin(), request.tokens.end());
  if (once.size() != request.tokens.size()) usage_error("--attention", in_quotes(text), "each token once");
  if (request.tokens.size() > TokenAttentionRequest::kMostTokens)
    usage_error("--attention", in_quotes(text), kExpected);
  return request;
}

nlohmann::ordered_json attention_json(const TokenAttention& attention) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < attention.tokens.size(); ++i) {
    nlohmann::ordered_json heads = nlohmann::ordered_json::array();
    for (int head = 0; head < attention.n_heads; ++head) {
      const float* row = attention.row(i, head);
      heads.push_back(std::vector<float>(row + attention.tokens[i], row + attention.n_queries));
    }
    tokens.push_back({{"token", attention.tokens[i]}, {"heads", std::move(heads)}});
  }
  return {{"layer", attention.layer}, {"tokens", std::move(tokens)}};
}

std::string attention_table(const TokenAttention& attention) {
  std::vector<std::vector<std::string>> rows = {{"token", "query head", "mean later", "greatest", "by query"}};
  for (std::size_t i = 0; i < attention.tokens.size(); ++i) {
    const int token = attention.tokens[i], n_later = attention.n_queries - token - 1;
    for (int head = 0; head < attention.n_heads && n_later > 0; ++head) {
      const float *first = attention.row(i, head) + token + 1, *end = attention.row(i, head) + attention.n_queries;
      double sum = 0;
      for (const float* p = first; p != end; ++p) sum += *p;
      const float* most = std::max_element(first, end);
      rows.push_back({std::to_string(token), std::to_string(head), format_number(sum / n_later), format_number(*most),
                      std::to_string(token + 1 + (most - first))});
    }
  }
  return "attention in layer " + std::to_string(attention.layer) + " under a full cache\n" + format_table(rows);
}

}  // namespace kvscope::app
