#include "engine/jobs/train/training_checkpoint.h"

#include <ATen/ATen.h>

#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

constexpr char kVersion[] = "2";

[[noreturn]] void refuse(const std::filesystem::path& path, std::string where, std::string found,
                         std::string expected) {
  throw Error({.file = path.string(),
               .where = std::move(where),
               .found = std::move(found),
               .expected = std::move(expected),
               .hint = "use --overwrite without --resume to start over"});
}

}  // namespace

void TrainingCheckpoint::save(const TrainingPoint& point) const {
  std::vector<at::Tensor> values;  // alive until written
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : optimizer_.state()) {
    values.push_back(tensor.detach().to(at::kCPU).contiguous());
    if (name.starts_with("parameters") && !values.back().isfinite().all().item<bool>()) {
      throw Error({.where = "step " + std::to_string(point.step),
                   .found = "parameters that are not finite",
                   .expected = "numbers",
                   .hint = "use a smaller learning_rate; " + path_.filename().string() + " is unchanged"});
    }
    tensors.push_back(
        {.name = name,
         .type = TensorType::f32,
         .shape = values.back().sizes().vec(),
         .bytes = {static_cast<const std::byte*>(values.back().const_data_ptr()), values.back().nbytes()}});
  }
  const nlohmann::json facts = {{"step", point.step}, {"seconds", point.seconds}, {"curve", point.curve}};
  write_safetensors(path_, tensors,
                    {{"kvscope_checkpoint", kVersion}, {"identity", identity_}, {"point", facts.dump()}});
}

TrainingPoint TrainingCheckpoint::load() const {
  if (!std::filesystem::exists(path_)) return {};
  const SafetensorsFile file = SafetensorsFile::open(path_);
  const auto text = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  if (text("kvscope_checkpoint") != kVersion) {
    refuse(path_, "kvscope_checkpoint", text("kvscope_checkpoint").empty() ? "none" : "another version", kVersion);
  }
  if (text("identity") != identity_) {
    refuse(path_, "", "a checkpoint of " + text("identity"), "one of " + identity_);
  }
  const nlohmann::json facts = nlohmann::json::parse(text("point"), nullptr, /*allow_exceptions=*/false);
  TrainingPoint point;
  try {
    point = {.step = facts.at("step").get<std::int64_t>(),
             .seconds = facts.at("seconds").get<double>(),
             .curve = facts.at("curve").get<std::vector<std::vector<double>>>()};
  } catch (const nlohmann::json::exception&) {
    refuse(path_, "point", "not the facts of a checkpoint", "step, seconds, curve");
  }
  if (point.step < 0) refuse(path_, "step", std::to_string(point.step), "0 or more");
  std::vector<std::pair<at::Tensor, at::Tensor>> read;  // nothing is set before all is known to be good
  for (const auto& [name, tensor] : optimizer_.state()) {
    const auto entry = file.tensors().find(name);
    if (entry == file.tensors().end() || entry->second.type != TensorType::f32 ||
        entry->second.shape != tensor.sizes().vec()) {
      refuse(path_, name, "not a float32 tensor of the training's size", "the optimiser's state");
    }
    at::Tensor values = at::empty(tensor.sizes(), at::TensorOptions(at::kFloat));
    file.read(entry->second, {static_cast<std::byte*>(values.mutable_data_ptr()), values.nbytes()});
    read.emplace_back(tensor, values);
  }
  for (auto& [tensor, values] : read) tensor.copy_(values);
  optimizer_.restored();
  return point;
}

}  // namespace kvscope::engine
