#include "app/session/folder_list.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntries = 2000;  // nobody scrolls through more; a name that is typed is found all the same

FolderListing read(const std::string& asked) {
  FolderListing listing{.folder = asked};
  std::error_code error;
  const fs::path folder = asked.empty() ? fs::path(".") : fs::path(expand_home(asked));
  for (fs::directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    std::error_code ignored;
    FolderEntry entry{.name = at->path().filename().string(), .folder = at->is_directory(ignored)};
    entry.kind = kind_of_path(at->path());
    listing.entries.push_back(std::move(entry));
    if (listing.entries.size() >= kMostEntries) break;
  }
  if (error) listing.error = error.message();
  std::ranges::sort(listing.entries, [](const FolderEntry& a, const FolderEntry& b) {
    return std::pair(!a.folder, a.name) < std::pair(!b.folder, b.name);
  });
  return listing;
}

}  // namespace

const FolderEntry* FolderListing::find(std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &FolderEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (!home || path.empty() || path[0] != '~' || (path.size() > 1 && path[1] != '/')) return path;
  return home + path.substr(1);
}

TypedPath split_path(const std::string& typed) {
  if (typed == "~") return {"~/", ""};
  const auto slash = typed.rfind('/');
  if (slash == std::string::npos) return {"", typed};
  return {typed.substr(0, slash + 1), typed.substr(slash + 1)};
}

std::string complete(const FolderListing& listing, const std::string& name) {
  std::string common;
  int n = 0;
  const FolderEntry* only = nullptr;
  for (const FolderEntry& entry : listing.entries) {
    const bool hidden = entry.name.starts_with(".") && !name.starts_with(".");
    if (!entry.name.starts_with(name) || hidden) continue;
    if (n++ == 0) common = entry.name, only = &entry;
    const auto differs = std::ranges::mismatch(common, entry.name).in1;
    common.erase(differs, common.end());
  }
  if (n == 0) return name;
  return n == 1 && only->folder ? common + "/" : common;
}

void FolderList::poll() {
  for (const auto& finish : worker_.take_finished()) finish();
}

const FolderListing* FolderList::of(const std::string& folder) {
  if ((ready_ || waiting_) && asked_ == folder) return ready_ ? &listing_ : nullptr;
  asked_ = folder;
  ready_ = false, waiting_ = true;
  const auto post = kind_of_.empty() ? &Worker::post_only : &Worker::post;  // that question is not to be dropped
  (worker_.*post)(
      [this, folder]() -> Worker::Finish {
        auto listing = std::make_shared<FolderListing>(read(folder));
        return [this, listing] {
          if (listing->folder != asked_) return;
          listing_ = std::move(*listing);
          ready_ = true, waiting_ = false;
          revision_.rise();
        };
      },
      [this](const std::string& text) {
        listing_ = {asked_, {}, text}, ready_ = true, waiting_ = false;
      });
  return nullptr;
}

std::optional<PathKind> FolderList::take_kind(const std::string& path) {
  if (kind_of_ == path) {
    if (kind_) kind_of_.clear();
    return std::exchange(kind_, std::nullopt);
  }
  kind_of_ = path, kind_.reset();
  const auto answer = [this, path](PathKind kind) {
    if (kind_of_ == path) kind_ = kind;
    revision_.rise();
  };
  worker_.post(
      [path, answer]() -> Worker::Finish {
        const PathKind kind = kind_of_path(path);
        return [answer, kind] { answer(kind); };
      },
      [answer](const std::string&) { answer(PathKind::missing); });
  return std::nullopt;
}

}  // namespace kvscope::app
