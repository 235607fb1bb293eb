#pragma once
// The variants of KVpop's mLSTM that tests go through.

#include <vector>

#include "engine/core/files/gate/gate_file.h"

namespace kvscope::test {

/// Each alone, and all together.
inline const std::vector<MlstmVariant>& mlstm_variants() {
  static const std::vector<MlstmVariant> all = {
      {.feature_map = FeatureMap::softmax},
      {.head_norm = true},
      {.cached_values = true},
      {.skip = false},
      {.feature_map = FeatureMap::softmax, .head_norm = true, .cached_values = true, .skip = false}};
  return all;
}

}  // namespace kvscope::test
