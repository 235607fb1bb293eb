#include "app/catalog/models.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <tuple>

#include "app/catalog/remote_file.h"
#include "app/support/paths.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

/// What ./setup fetches. The first one comes by default, and the window opens on it.
struct Fetched {
  const char *name, *how;
};
constexpr Fetched kFetched[] = {{"smollm2-135m", "./setup fetches it (93 MB)"},
                                {"gemma3-270m", "./setup --model gemma3-270m (238 MB)"}};

/// $name if it is set and not empty.
std::optional<fs::path> folder_of(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<fs::path>(value) : std::nullopt;
}

fs::path cache_home() {
  if (const auto folder = folder_of("XDG_CACHE_HOME")) return *folder;
  if (const auto home = folder_of("HOME")) return *home / ".cache";
  return {};
}

/// What Python's expanduser and expandvars make of a path: "~" at its beginning, "$NAME" and "${NAME}" of set variables.
fs::path expanded(std::string text) {
  const char* home = std::getenv("HOME");
  if (home && (text == "~" || text.starts_with("~/"))) text = home + text.substr(1);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool braces = text.compare(at, 2, "${") == 0;
    const std::size_t from = at + (braces ? 2 : 1);
    std::size_t end = from;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
    const bool is_name = text[at] == '$' && end > from && (!braces || (end < text.size() && text[end] == '}'));
    const char* value = is_name ? std::getenv(text.substr(from, end - from).c_str()) : nullptr;
    if (value) {
      out += value;
      at = end + (braces ? 1 : 0);
    } else {
      out += text[at++];
    }
  }
  return out;
}

bool is_model(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.json", error);
}

/// The folders in `folder`, in order of name.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, error)) {
    if (entry.is_directory(error)) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has_weights(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "model.safetensors", error) || fs::exists(folder / "model.safetensors.index.json", error);
}

/// models--owner--name: its snapshot; nothing if none has a configuration. One with weights goes before that of refs/main,
/// of which transformers' AutoConfig may have fetched config.json alone, and then the newest.
std::optional<fs::path> snapshot_of(const fs::path& repository) {
  std::ifstream ref(repository / "refs" / "main");
  std::string revision;
  // A name of a folder, not a way out of this one.
  if (!(ref >> revision) || revision.find('/') != std::string::npos) revision.clear();
  using Rank = std::tuple<bool, bool, fs::file_time_type>;
  std::optional<fs::path> best;
  Rank of_best;
  std::error_code error;
  for (const fs::path& snapshot : folders_in(repository / "snapshots")) {
    if (!is_model(snapshot)) continue;
    const Rank rank = {has_weights(snapshot), snapshot.filename() == revision, fs::last_write_time(snapshot, error)};
    if (!best || rank > of_best) best = snapshot, of_best = rank;
  }
  return best;
}

std::string listed(const std::vector<KnownModel>& models) {
  std::string text;
  for (const KnownModel& model : models) {
    if (model.path.empty()) continue;
    if (text.size() > 200) return text.append(" ...");
    text.append(text.empty() ? "" : ", ").append(model.name);
  }
  return text;
}

}  // namespace

fs::path model_cache() {
  const fs::path cache = cache_home();
  return cache.empty() ? fs::path() : cache / "kvscope" / "models";
}

fs::path hugging_face_cache() {
  // The order of huggingface_hub, and last what transformers before version 5 reads.
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE"}) {
    if (const auto folder = folder_of(name)) return expanded(folder->string());
  }
  if (const auto home = folder_of("HF_HOME")) return expanded(home->string()) / "hub";
  const fs::path cache = cache_home();
  return cache.empty() ? fs::path() : cache / "huggingface" / "hub";
}

std::vector<KnownModel> known_models() {
  std::vector<KnownModel> models;
  for (const auto& [name, how] : kFetched) {
    const fs::path folder = model_cache() / name;
    const bool here = !model_cache().empty() && is_model(folder);
    models.push_back({.name = name, .path = here ? folder : fs::path(), .origin = "set-up", .how = how});
  }
  for (const fs::path& sample : sample_models())
    models.push_back({.name = sample.filename().string(), .path = sample, .origin = "sample", .how = ""});
  for (const fs::path& repository : folders_in(hugging_face_cache())) {
    std::string name = repository.filename().string();
    constexpr std::string_view kPrefix = "models--";
    if (!name.starts_with(kPrefix)) continue;
    name.erase(0, kPrefix.size());
    if (const auto slash = name.find("--"); slash != std::string::npos)
      name = std::string(name, 0, slash).append("/").append(name, slash + 2);
    if (const auto snapshot = snapshot_of(repository))
      models.push_back({.name = name, .path = *snapshot, .origin = "Hugging Face cache", .how = ""});
  }
  return models;
}

std::optional<fs::path> find_model(const std::string& name) {
  const std::string wanted = lower(name);
  std::optional<fs::path> by_last_part;
  int n_by_last_part = 0;
  for (const KnownModel& model : known_models()) {
    if (model.path.empty()) continue;
    const std::string found = lower(model.name);
    if (found == wanted) return model.path;
    if (const auto slash = found.rfind('/'); slash != std::string::npos && found.substr(slash + 1) == wanted)
      by_last_part = model.path, ++n_by_last_part;
  }
  return n_by_last_part == 1 ? by_last_part : std::nullopt;
}

std::string model_folder_or(const std::string& text) {
  std::error_code error;
  if (fs::is_directory(text, error)) return text;
  const auto found = find_model(text);
  return found ? found->string() : text;
}

std::string model_folder(const std::string& text) {
  std::error_code error;
  const std::string folder = model_folder_or(text);
  if (fs::is_directory(folder, error)) return folder;
  const std::vector<KnownModel> models = known_models();
  const auto fetched = std::ranges::find(kFetched, lower(text), &Fetched::name);
  const bool fetchable = fetched != std::end(kFetched);
  throw Error({.code = ExitCode::bad_input,
               .file = text,
               .found = fs::exists(text, error) ? "a file"
                        : fetchable             ? "not fetched"
                                                : "no such folder or name",
               .expected = std::string("a model's folder with config.json, or one of ").append(listed(models)),
               .hint = fetchable ? fetched->how : remote_model_hint(text)});
}

fs::path first_model() {
  const auto fetched = find_model(kFetched[0].name);
  return fetched ? *fetched : sample_model();
}

}  // namespace kvscope::app
