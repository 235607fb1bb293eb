#pragma once
#include <filesystem>
#include <string>

namespace kvscope {

/// What a gate is called, by its place: "wgkv-0.01" of a folder (which may have a dot) or of a file wgkv-0.01.pt.
std::string gate_name(const std::filesystem::path& path);

}  // namespace kvscope
