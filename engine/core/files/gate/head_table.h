#pragma once
// Tables of one number a KV head, as numpy.savetxt writes them: DuoAttention's full_attention_heads.tsv and RLKV's
// adapter_weights.tsv.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

struct HeadTable {
  int n_layers = 0, n_kv_heads = 0;
  std::vector<float> values = {};  // [n_layers][n_kv_heads], clipped to [0, 1] as their readers do
};

/// "%.18e" of numpy.savetxt with tabs, the same in every locale. `values` as in HeadTable, not clipped.
std::string format_head_table(const std::vector<float>& values, int n_kv_heads);
/// Throws Error naming file and line for anything but rows of equally many numbers; CRLF and a blank last line are read.
HeadTable parse_head_table(std::string_view text, const std::string& file);
HeadTable read_head_table(const std::filesystem::path& path);

}  // namespace kvscope
