#include "engine/jobs/train/phase.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstdio>
#include <map>

#include "engine/core/support/error.h"

namespace kvscope::engine {

at::Tensor ids_tensor(const Batch& batch, at::Device device) {
  const at::Tensor ids =
      at::from_blob(const_cast<std::int32_t*>(batch.ids.data()), {batch.size, batch.row_tokens}, at::kInt);
  return ids.to(device).to(at::kLong);
}

at::Tensor roles_tensor(const Batch& batch, at::Device device) {
  const at::Tensor roles =
      at::from_blob(const_cast<std::uint8_t*>(batch.roles.data()), {batch.size, batch.row_tokens}, at::kByte);
  return roles.to(device).to(at::kLong);
}

nlohmann::json dense_accuracy(const Qwen3Module& model, const SequenceGenerator& heldout, int n_sequences) {
  const c10::NoGradGuard no_grad;
  constexpr int kAtOnce = 8;
  std::map<TaskKind, std::pair<int, int>> counts;  // right, asked
  for (int first = 0; first < n_sequences; first += kAtOnce) {
    const Batch batch = make_batch(heldout, static_cast<std::uint64_t>(first), std::min(kAtOnce, n_sequences - first));
    const at::Tensor ids = ids_tensor(batch, model.embedding().device());
    const at::Tensor hidden = model.hidden(ids.narrow(1, 0, ids.size(1) - 1));
    const at::Tensor answer = at::matmul(hidden, model.embedding().t()).argmax(-1);  // [B, T], of position t + 1
    const at::Tensor right = (answer == ids.narrow(1, 1, ids.size(1) - 1)).cpu();
    for (int i = 0; i < batch.size; ++i) {
      for (const auto& span : batch.spans[i]) {
        auto& [n_right, n_asked] = counts[span.kind];
        n_right += right[i].narrow(0, span.begin - 1, span.end - span.begin).all().item<bool>();
        ++n_asked;
      }
    }
  }
  nlohmann::json result;
  for (const auto& [kind, count] : counts) {
    result[std::string(to_string(kind))] = {{"right", count.first}, {"asked", count.second}};
  }
  return result;
}

LossCurve::LossCurve(const std::filesystem::path& path, std::vector<std::string> columns)
    : columns_(std::move(columns)), file_(path) {
  for (std::size_t i = 0; i < columns_.size(); ++i) file_ << (i == 0 ? "" : ",") << columns_[i];
  file_ << '\n' << std::flush;
  if (!file_) {
    throw Error({.code = ExitCode::resource, .file = path.string(), .found = "the file cannot be written"});
  }
}

void LossCurve::add(const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "%s%.7g", i == 0 ? "" : ",", values[i]);
    file_ << text;
  }
  file_ << '\n' << std::flush;
}

}  // namespace kvscope::engine
