#pragma once
// Head files, in and out: one reader, one writer a format. Who reads what, and what each loses:
// docs/reference/head-files.md.
//
//     duo      FOLDER     DuoAttention's full_attention_heads.tsv + config.json (duo_directory.h)
//     headkv   FILE       HeadKV's and Retrieval_Head's {"layer-head": [score]}, a key a query head
//     hf       FILE       layer_types, sliding_window and use_sliding_window of a Hugging Face config.json
//     block    FILE       block_configs of DeciLM (Nemotron-NAS): a window a layer
//     json     FILE       our own: all of HeadChoice
//     kvzip    FILE.pt    KVzip's head_score, or a folder of them; read only
//     rlkv     FOLDER     RLKV's adapter_weights.tsv, or the file; read only

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/gate/head_file.h"
#include "engine/core/support/json_file.h"

namespace kvscope {

struct HeadFormat {
  std::string_view name;  // "duo"
  std::string_view path;  // what its path is: "FOLDER", "FILE"
  /// Files to be written at `path`. Throws Error (usage) for a choice that the format cannot say; null: read only.
  std::vector<FileToWrite> (*write)(const HeadChoice& choice, const std::filesystem::path& path);
  /// Throws Error (bad input) for damaged and foreign files and for those of a model of another shape.
  HeadFile (*read)(const std::filesystem::path& path, const HeadShape& model);
  /// Where a program that reads the format does otherwise than the choice says, a sentence each; may be null.
  std::vector<std::string> (*losses)(const HeadChoice& choice) = nullptr;
};
std::span<const HeadFormat> head_formats();

/// "duo:FOLDER"
struct HeadTarget {
  const HeadFormat* format = nullptr;
  std::filesystem::path path;
};
/// Throws Error (usage) listing the formats; `option` is what it was given to, and `to_write` leaves out those that are
/// read only.
HeadTarget parse_head_target(const std::string& text, const std::string& option, bool to_write);

/// All files of all targets, or none. Refuses as writable_target() does, and a config.json or table that is no head list
/// even with `overwrite`. Gives the losses of all targets.
std::vector<std::string> export_heads(std::span<const HeadTarget> targets, const HeadChoice& choice, bool overwrite,
                                      std::span<const std::filesystem::path> inputs = {});
HeadFile import_heads(const HeadTarget& target, const HeadShape& model);

// What the formats share.
inline constexpr char kHeadsFormat[] = "kvscope-heads";  // "format" of our own files
/// Zeros and ones alone are a choice: then 0.5, else none.
std::optional<double> threshold_of(const std::vector<float>& values);
/// Throws Error (bad input) if a number that the model says is another one.
void check_shape(const HeadFile& heads, const HeadShape& model, const std::string& file);
/// Of a list with an entry a layer.
void check_layers(std::size_t n_found, const HeadShape& model, const std::string& file, const std::string& where);

std::vector<FileToWrite> write_duo(const HeadChoice& choice, const std::filesystem::path& folder);
HeadFile read_duo(const std::filesystem::path& folder, const HeadShape& model);
std::vector<std::string> duo_losses(const HeadChoice& choice);
std::vector<FileToWrite> write_headkv(const HeadChoice& choice, const std::filesystem::path& path);
HeadFile read_headkv(const std::filesystem::path& path, const HeadShape& model);
std::vector<std::string> headkv_losses(const HeadChoice& choice);
std::vector<FileToWrite> write_layer_types(const HeadChoice& choice, const std::filesystem::path& path);
HeadFile read_layer_types(const std::filesystem::path& path, const HeadShape& model);
std::vector<std::string> layer_types_losses(const HeadChoice& choice);
std::vector<FileToWrite> write_block_configs(const HeadChoice& choice, const std::filesystem::path& path);
HeadFile read_block_configs(const std::filesystem::path& path, const HeadShape& model);
std::vector<FileToWrite> write_heads_json(const HeadChoice& choice, const std::filesystem::path& path);
HeadFile read_heads_json(const std::filesystem::path& path, const HeadShape& model);
HeadFile read_kvzip_scores(const std::filesystem::path& path, const HeadShape& model);
HeadFile read_rlkv_weights(const std::filesystem::path& path, const HeadShape& model);

}  // namespace kvscope
