#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace kvscope {

/// What a gate is called, by its place: "wgkv-0.01" of a folder (which may have a dot) or of a file wgkv-0.01.pt. Of a pipe
/// (record/pipe_gate.h) "pipe-1f2e3d4c", a hash of its command: it tells two apart and says nothing of the command.
std::string gate_name(const std::filesystem::path& path);
/// Gates as a study's file has them: a pipe by its name, so that no file has a command that starts a program.
std::vector<std::string> gates_in_study(std::vector<std::string> gates);

}  // namespace kvscope
