#include "engine/core/policy/scorer_text.h"

#include <utility>

#include "engine/core/policy/declared_policy.h"

namespace kvscope {
namespace {

constexpr std::pair<std::string_view, std::string_view> kTitles[] = {{"kvpop_mlstm", "KVpop mLSTM"},
                                                                     {"kvpop_mlp", "KVpop MLP"},
                                                                     {"kvpop_linear", "KVpop linear"},
                                                                     {"wg_kv", "WG-KV"},
                                                                     {"sp_kv", "SP-KV"},
                                                                     {"dms", "DMS"},
                                                                     {"dms_separate", "DMS"},
                                                                     {"kvzap_linear", "KVzap linear"},
                                                                     {"kvzap_mlp", "KVzap MLP"},
                                                                     {"duo", "DuoAttention"},
                                                                     {"knorm", "Key norm"},
                                                                     {"keydiff", "KeyDiff"}};
constexpr std::pair<std::string_view, std::string_view> kShort[] = {
    {"kvpop", "KVpop"}, {"h2o", "H2O"}, {"top-k", "Top-k"}, {"oracle", "Oracle"}, {"random", "Random"}};
constexpr std::string_view kGate = ", gate ";

}  // namespace

std::string scorer_title(std::string_view kind) {
  for (const auto& [name, title] : kTitles) {
    if (name == kind) return std::string(title);
  }
  return std::string(kind);
}

std::string method_name(std::string_view policy) {
  for (const auto& [name, title] : kShort) {
    if (name == policy) return std::string(title);
  }
  const PolicyInfo* info = find_policy(policy);
  return std::string(info != nullptr ? info->title : policy);
}

std::string method_name(const PolicySpec& policy) {
  return policy.declared != nullptr ? policy.declared->declaration.title : method_name(policy.name);
}

std::string scorer_titles(std::span<const std::string_view> kinds) {
  std::string titles, last;
  for (const std::string_view kind : kinds) {
    const std::string title = scorer_title(kind);
    if (title != last) titles += (titles.empty() ? "" : " or ") + title;  // two kinds of DMS have one name
    last = title;
  }
  return titles;
}

std::string scorer_text(std::string_view kind, int delay, std::string_view gate) {
  const std::string text = scorer_title(kind) + ", delay " + std::to_string(delay);
  return gate.empty() ? text : text + std::string(kGate) + std::string(gate);
}

}  // namespace kvscope
