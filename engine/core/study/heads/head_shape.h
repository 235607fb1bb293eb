#pragma once
// How many heads there are to choose from.

namespace kvscope {

/// Of a model; 0 where it is not known.
struct HeadShape {
  int n_layers = 0, n_kv_heads = 0;
  int n_heads = 0;  // query heads a layer
  /// KV heads of all layers.
  int count() const { return n_layers * n_kv_heads; }
  /// Query heads a KV head; 0: not known.
  int group_size() const { return n_heads > 0 && n_kv_heads > 0 ? n_heads / n_kv_heads : 0; }
};

}  // namespace kvscope
