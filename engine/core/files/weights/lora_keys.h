#pragma once
// The keys of PEFT's adapter_config.json.

#include <nlohmann/json.hpp>
#include <string>

namespace kvscope {

/// Throws Error (bad input) that names the first key, in their order, under which a LoRA adapter is more than
/// W + scale B A, or that is not known and set, or whose value PEFT would refuse. What LoraConfig computes with it checks itself.
void check_lora_keys(const nlohmann::json& config, const std::string& file);

}  // namespace kvscope
