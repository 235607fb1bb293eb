#pragma once
// The open studies, and what the selected point was measured with. The selection has which are open; this follows it, so that
// Undo and the next start have them back.

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/session/files.h"
#include "app/session/study_point.h"
#include "views/selection/view_state.h"

namespace kvscope::app {

class EngineLink;

class Studies {
 public:
  /// `program` reads studies in a child process (--study-child); empty: they are read here.
  Studies(std::string program, Files& files, Messages& messages, Revision& revision, Worker& background,
          views::Selection& selection);

  /// Reads the file and puts it on show, then calls `opened`; `otherwise` (may be empty) if it is no study. What is damaged is a
  /// banner, and nothing changes.
  void open(const std::string& path, std::function<void()> opened = nullptr, std::function<void()> otherwise = nullptr);
  /// Off the list. Throws Error (usage) for a study that is not open.
  void close(int id);
  void show(int id);
  /// Throws Error (usage) if none is on show, or it is not read.
  const views::OpenStudy& shown() const;
  const views::OpenStudies& open_studies() const { return studies_; }

  /// Reads what the selection names, the curve of a training on show again where it has grown, and looks at the selected point
  /// again where something has changed.
  void poll(const EngineLink& engine);
  /// A file that may be the text of a point.
  void add_text(const std::string& path);

  /// Of the selected point; null while nothing is known of it.
  const MeasuredPoint* point() const { return looked_at_ ? &looked_at_->point : nullptr; }
  const PointSources* sources() const { return looked_at_ ? &looked_at_->sources : nullptr; }
  /// Whether they are of what is selected now.
  bool knows_point() const { return looked_at_ && looked_at_->key == wanted_; }

 private:
  struct Key {
    std::shared_ptr<const StudyTable> table;
    int row = -1, piece = 0;
    std::string model_path, model;  // open; hash and number format
    std::size_t n_texts = 0;
    bool operator==(const Key&) const = default;
  };
  struct LookedAt {
    Key key;
    MeasuredPoint point;
    PointSources sources;
  };
  void follow_list();
  void read(const std::string& path);
  void follow_training();
  void renew(const std::string& path, std::shared_ptr<const StudyTable> table, const std::string& stale);
  void take(const std::string& path, StudyTable table);
  void look(const EngineLink& engine);
  const views::OpenStudy& of_id(int id) const;

  std::string program_;
  Files& files_;
  Messages& messages_;
  Revision& revision_;
  Worker& background_;
  views::Selection& selection_;
  views::OpenStudies studies_;
  std::map<std::string, int> ids_;                                      // by path
  std::map<std::string, std::shared_ptr<const StudyTable>> just_read_;  // not yet on the list
  std::vector<std::string> texts_;
  std::map<std::string, std::string> versions_;  // study_version() of trainings that were read again, by path
  std::chrono::steady_clock::time_point follow_at_{};
  std::chrono::milliseconds follow_pause_{0};
  bool following_ = false;
  Key wanted_, asked_;
  bool looking_ = false;
  std::optional<LookedAt> looked_at_;
};

}  // namespace kvscope::app
