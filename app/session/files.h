#pragma once
// Files in and out while the window goes on; a message tells each end.

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "app/session/messages.h"
#include "app/session/worker.h"

namespace kvscope::app {

/// One file has one name: the next start may begin in another folder.
std::string full_path(const std::string& path);

class Files {
 public:
  Files(Messages& messages, Revision& revision, Worker& background)
      : messages_(messages), revision_(revision), background_(background) {}

  /// What the job throws is a banner.
  void in_background(std::string what, Worker::Job job);
  bool busy() const { return background_.busy(); }

  /// The file is a copy of what `word` names: the list of recent files has the word, and nothing is saved beside the copy.
  void set_origin(const std::string& path, const std::string& word) { origins_[path] = word; }
  const std::deque<std::string>& recent() const { return recent_; }
  void remember(const std::string& path);
  void set_recent(const std::vector<std::string>& paths);

  /// Where what is saved next is likely wanted: where a file was saved or opened last, else the person's documents.
  std::string save_folder() const;
  /// A file was saved or opened there.
  void remember_place(const std::string& path);
  const std::string& place() const { return place_; }  // a folder; empty: nothing was saved or opened
  void set_place(const std::string& folder) { place_ = folder; }

 private:
  Messages& messages_;
  Revision& revision_;
  Worker& background_;
  std::map<std::string, std::string> origins_;  // of copies
  std::deque<std::string> recent_;
  std::string place_;
};

}  // namespace kvscope::app
