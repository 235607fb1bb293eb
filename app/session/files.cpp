#include "app/session/files.h"

#include <exception>
#include <filesystem>
#include <utility>

#include "app/support/paths.h"
#include "engine/core/support/error.h"
#include "engine/core/support/std_failure.h"

namespace kvscope::app {

static constexpr std::size_t kRecentFiles = 12;

std::string full_path(const std::string& path) {
  std::error_code error;
  const auto full = std::filesystem::absolute(path, error);
  return error ? path : full.lexically_normal().string();
}

void Files::in_background(std::string what, Worker::Job job) {
  const auto failed = [this, what = std::move(what)](const std::string& text) {
    messages_.log("error: " + what + ": " + text);
    messages_.add_banner({.kind = Banner::Kind::error, .text = text});
  };
  background_.post(
      [this, failed, job = std::move(job)]() -> Worker::Finish {
        return [this, failed, finish = job()] {
          try {
            finish();
          } catch (const std::exception& error) {
            failed(error_of(error).what());
          }
          revision_.rise();
        };
      },
      failed);
}

void Files::remember(const std::string& file) {
  const auto origin = origins_.find(file);
  const std::string& path = origin == origins_.end() ? file : origin->second;
  std::erase(recent_, path);
  recent_.push_front(path);
  if (recent_.size() > kRecentFiles) recent_.pop_back();
}

std::string Files::save_folder() const { return place_.empty() ? documents_folder().string() : place_; }

void Files::remember_place(const std::string& path) {
  if (origins_.contains(path)) return;
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error);
  if (!error) place_ = whole.lexically_normal().parent_path().string();
}

void Files::set_recent(const std::vector<std::string>& paths) { recent_.assign(paths.begin(), paths.end()); }

}  // namespace kvscope::app
