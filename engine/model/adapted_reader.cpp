#include "engine/model/adapted_reader.h"

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "engine/model/checkpoint.h"

namespace kvscope::engine {

bool has_adapter(const std::filesystem::path& folder) { return LoraFile::is_there(folder); }

std::filesystem::path adapter_of(const std::vector<std::string>& gates) {
  std::filesystem::path found;
  for (const std::string& path : gates) {
    if (!has_adapter(path)) continue;
    if (!found.empty()) {
      throw Error({.code = ExitCode::usage,
                   .file = path,
                   .found = "a second adapter, besides that of " + found.string(),
                   .expected = "only one: each gate was trained with its own change of the weights"});
    }
    found = path;
  }
  return found;
}

void AdaptedReader::check(const std::string& name, const std::vector<std::int64_t>& shape) const {
  base_.check(name, shape);
  const auto found = adapter_.pairs().find(name);
  if (found == adapter_.pairs().end()) return;
  const std::int64_t outputs = found->second.b->shape[0], inputs = found->second.a->shape[1];
  if (shape.size() == 2 && outputs == shape[0] && inputs == shape[1]) return;
  throw Error({.file = adapter_.file().path().string(),
               .where = name,
               .found = "a change of a [" + std::to_string(outputs) + ", " + std::to_string(inputs) + "] matrix",
               .expected = "the model's sizes: the adapter is for another model"});
}

void AdaptedReader::read(const std::vector<TensorTarget>& targets) {
  base_.read(targets);
  for (const TensorTarget& target : targets) {
    const auto found = adapter_.pairs().find(target.name);
    if (found == adapter_.pairs().end()) continue;
    const std::string module = "base_model.model." + target.name.substr(0, target.name.rfind(".weight"));
    const auto part = [&](const char* half, const TensorEntry& entry) {
      return read_tensor(adapter_.file(), module + half, entry.shape).to(target.to.device()).to(at::kFloat);
    };
    const at::Tensor change =
        at::matmul(part(".lora_B.weight", *found->second.b), part(".lora_A.weight", *found->second.a));
    const double largest = change.abs().max().item<double>() * found->second.scale;
    if (!(largest <= LoraFile::largest_weight)) {  // not a number either
      throw Error({.file = adapter_.file().path().string(),
                   .where = module,
                   .found = "a change of its weights by " + number_text(largest, 6),
                   .expected = "at most " + number_text(LoraFile::largest_weight, 6),
                   .hint = "the adapter may be damaged: download it again, or check whether its training diverged"});
    }
    at::Tensor to = target.to;
    to.copy_(to.to(at::kFloat).add_(change, found->second.scale));
    used_.insert(target.name);
  }
}

void AdaptedReader::check_all_used() const {
  for (const auto& [name, pair] : adapter_.pairs()) {
    if (used_.contains(name)) continue;
    throw Error({.file = adapter_.file().path().string(),
                 .found = "a change of " + in_quotes(name),
                 .expected = "matrices of the model's attention and MLP",
                 .hint = "the adapter is for another model"});
  }
}

}  // namespace kvscope::engine
