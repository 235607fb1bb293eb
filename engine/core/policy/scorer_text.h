#pragma once
// What a run decides by, in words: in traces, notes and captions. Ids stay what commands are given.

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

struct PolicySpec;

/// Of a gate's kind ("wg_kv", as in gate_file.h) the name that its paper has: "WG-KV", "KVpop mLSTM". Another kind as it is.
std::string scorer_title(std::string_view kind);
/// The same of a policy ("wg-kv"), as short as a line of the list of runs wants it: "KVpop", "H2O".
std::string method_name(std::string_view policy);
/// Of one that an engine declares, its title.
std::string method_name(const PolicySpec& policy);
/// "KVpop mLSTM or KVpop MLP".
std::string scorer_titles(std::span<const std::string_view> kinds);
/// "KVpop mLSTM, delay 64, gate kvpop-mlstm": which of several of one kind it is, says the name. Empty: it has none.
std::string scorer_text(std::string_view kind, int delay, std::string_view gate = "");

}  // namespace kvscope
