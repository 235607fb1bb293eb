#pragma once
// A set of KV heads: what is marked on the map, and which are global on the board.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope::views {

struct KvHead {
  int layer = 0, kv_head = 0;
  auto operator<=>(const KvHead&) const = default;
};

/// Ordered by layer, then head, each once.
class HeadSet {
 public:
  static constexpr int kMostSide = 1 << 16;  // layers, heads

  HeadSet() = default;
  HeadSet(std::initializer_list<KvHead> heads);
  bool empty() const { return heads_.empty(); }
  int size() const { return static_cast<int>(heads_.size()); }
  auto begin() const { return heads_.begin(); }
  auto end() const { return heads_.end(); }
  bool contains(KvHead head) const;
  void add(KvHead head);
  void remove(KvHead head);
  /// Adds all of `other`, or takes them away: O(n) however many.
  void add(const HeadSet& other);
  void remove(const HeadSet& other);
  /// Those that a model of this shape has.
  HeadSet within(int n_layers, int n_kv_heads) const;
  bool operator==(const HeadSet&) const = default;

 private:
  std::vector<KvHead> heads_;
};

/// "0.1-3 5.0": layer.head, a run of heads of one layer as one word; empty for none.
std::string to_text(const HeadSet& heads);
/// Throws Error (bad input) for what is no such text, naming `file` and `where`.
HeadSet parse_heads(std::string_view text, const std::string& file, const std::string& where);
/// All heads of a model for which local[layer * n_kv_heads + head] is 0.
HeadSet global_heads_of(const std::vector<std::uint8_t>& local, int n_kv_heads);
/// [n_layers * n_kv_heads] 1 for each head that is not in the set.
std::vector<std::uint8_t> local_heads_of(const HeadSet& global, int n_layers, int n_kv_heads);

}  // namespace kvscope::views
