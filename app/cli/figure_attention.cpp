#include "app/cli/figure_attention.h"

#include <algorithm>

#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"
#include "views/figure/attention_json.h"

namespace kvscope::app {
namespace {

constexpr const char* kCommand = "kvscope score MODEL --text-file FILE --attention LAYER:TOKEN --json";

void check_same_text(const nlohmann::json& scored, std::span<const std::int32_t> ids, const std::string& path) {
  const auto list = scored.find("ids");
  if (list == scored.end() || !list->is_array()) refuse(path, "ids", "missing", "a list of token ids", kCommand);
  const bool begins = list->size() <= ids.size() &&
                      std::equal(list->begin(), list->end(), ids.begin(), [](const nlohmann::json& a, std::int32_t b) {
                        return a.is_number_integer() && a.get<std::int64_t>() == b;
                      });
  if (!begins) refuse(path, "ids", "another text than the trace's", "the beginning of the trace's tokens");
}

}  // namespace

std::shared_ptr<const TokenAttention> read_scored_attention(const std::string& path,
                                                            std::span<const std::int32_t> ids) {
  const nlohmann::json scored = read_json(path);
  const auto attention = scored.is_object() ? scored.find("attention") : scored.end();
  if (!scored.is_object() || attention == scored.end() || !attention->is_object() || !attention->contains("tokens") ||
      !attention->at("tokens").is_array())
    refuse(path, "", "no attention of a token", "the output of kvscope score --attention", kCommand);
  const nlohmann::json& tokens = attention->at("tokens");
  if (tokens.size() != 1) refuse(path, "attention", std::to_string(tokens.size()) + " tokens", "one", kCommand);
  check_same_text(scored, ids, path);
  nlohmann::json one = tokens[0];
  if (one.is_object()) one["layer"] = attention->value("layer", nlohmann::json());
  return views::parse_attention(one, path, "attention");
}

}  // namespace kvscope::app
