#include "app/engine_client/same_model.h"

#include "engine/core/support/error.h"

namespace kvscope::app {

ModelInfo load_same_model(EngineJob& job, const std::string& folder, const ModelInfo& recorded,
                          std::span<const PolicySpec> policies) {
  const ModelInfo model = job.load(folder, policies);
  if (model.weights_hash != recorded.weights_hash || model.vocab_size != recorded.vocab_size ||
      model.n_layers != recorded.n_layers || model.n_kv_heads != recorded.n_kv_heads)
    throw Error({.file = folder,
                 .found = "weights " + model.weights_hash,
                 .expected = "the trace's model: " + recorded.name + ", weights " + recorded.weights_hash,
                 .hint = "give its folder with --model"});
  return model;
}

}  // namespace kvscope::app
