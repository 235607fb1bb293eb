#include "app/session/studies.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "app/catalog/study_source.h"
#include "app/session/engine_link.h"
#include "app/support/usage.h"
#include "engine/core/study/table/study_columns.h"

namespace kvscope::app {
namespace {

/// Between two looks at a file that grows; of one that does not, the pause doubles.
constexpr std::chrono::milliseconds kFollow{500}, kFollowAtMost{8000};

/// "1 point", "12 points"
std::string points_of(const StudyTable& table) {
  return std::to_string(table.n_points()) + (table.n_points() == 1 ? " point" : " points");
}

}  // namespace

Studies::Studies(std::string program, Files& files, Messages& messages, Revision& revision, Worker& background,
                 views::Selection& selection)
    : program_(std::move(program)),
      files_(files),
      messages_(messages),
      revision_(revision),
      background_(background),
      selection_(selection) {}

void Studies::open(const std::string& name, std::function<void()> opened, std::function<void()> otherwise) {
  const std::string path = full_path(name);
  files_.in_background("open " + path, [this, path, opened, otherwise]() -> Worker::Finish {
    auto table = std::make_shared<std::optional<StudyTable>>(otherwise ? read_study_source(path, program_)
                                                                       : read_studies({path}, program_));
    return [this, path, table, opened, otherwise] {
      if (!*table) return otherwise();
      take(path, std::move(**table));
      files_.remember(path);
      if (opened) opened();
      messages_.notify(shown().table->kind + " of " + points_of(*shown().table) + " from " + path);
    };
  });
}

// Opened again, a study is read again: its file may be a newer one.
void Studies::take(const std::string& path, StudyTable table) {
  std::erase_if(studies_.all, [&](const views::OpenStudy& study) { return study.path == path; });
  just_read_[path] = std::make_shared<const StudyTable>(std::move(table));
  views::StudyLook& look = selection_.study;
  if (std::ranges::find(look.open, path) == look.open.end()) look.open.push_back(path);
  views::show_study(look, path);
  follow_list();
}

const views::OpenStudy& Studies::of_id(int id) const {
  const auto found = std::ranges::find(studies_.all, id, &views::OpenStudy::id);
  if (found != studies_.all.end()) return *found;
  std::string ids;
  for (const views::OpenStudy& study : studies_.all) ids += (ids.empty() ? "" : ", ") + std::to_string(study.id);
  usage_error("id", std::to_string(id), ids.empty() ? "a study, but none is open" : "one of " + ids);
}

void Studies::close(int id) {
  const std::string path = of_id(id).path;
  views::StudyLook& look = selection_.study;
  std::erase(look.open, path);
  if (look.shown == path) views::show_study(look, look.open.empty() ? "" : look.open.back());
  revision_.rise();
}

void Studies::show(int id) {
  views::show_study(selection_.study, of_id(id).path);
  revision_.rise();
}

const views::OpenStudy& Studies::shown() const {
  const views::OpenStudy* study = studies_.shown(selection_.study);
  if (study == nullptr) usage_error("study", "none is shown", "", "open one first");
  return *study;
}

void Studies::poll(const EngineLink& engine) {
  follow_list();
  follow_training();
  look(engine);
}

void Studies::follow_training() {
  const auto now = std::chrono::steady_clock::now();
  const views::OpenStudy* study = studies_.shown(selection_.study);
  if (study == nullptr || study->table->kind != kTrainingStudy || following_ || now < follow_at_) return;
  following_ = true;
  const auto again = [this](std::chrono::milliseconds pause) {
    following_ = false;
    follow_pause_ = std::clamp(pause, kFollow, kFollowAtMost);
    follow_at_ = std::chrono::steady_clock::now() + follow_pause_;
  };
  background_.post(
      [this, again, path = study->path, known = versions_[study->path]]() -> Worker::Finish {
        // Before it is read: what comes meanwhile is another version.
        const std::string version = study_version(path);
        if (version == known && !version.empty()) return [this, again] { again(2 * follow_pause_); };
        auto table = std::make_shared<const StudyTable>(read_studies({path}, program_));
        return [this, again, path, version, table] {
          again(kFollow);
          versions_[path] = version;
          renew(path, table, "");
        };
      },
      [this, again, path = study->path](const std::string& text) {
        again(2 * follow_pause_);
        versions_.erase(path);
        renew(path, nullptr, text);
      });
}

// Null: what was read stays on show, and `stale` says why it is not newer.
void Studies::renew(const std::string& path, std::shared_ptr<const StudyTable> table, const std::string& stale) {
  const auto study = std::ranges::find(studies_.all, path, &views::OpenStudy::path);
  if (study == studies_.all.end() || study->table == nullptr) return;
  if (table == nullptr && study->stale == stale) return;
  study->stale = stale;
  if (table != nullptr) {
    views::StudyLook& look = selection_.study;
    if (look.shown == path && look.point >= 0 && look.point < static_cast<int>(study->table->n_points()))
      look.point = same_step(*study->table, look.point, *table);
    study->table = std::move(table);
  }
  revision_.rise();
}

void Studies::follow_list() {
  const auto& open = selection_.study.open;
  const auto same = [](const views::OpenStudy& study, const std::string& path) { return study.path == path; };
  if (std::ranges::equal(studies_.all, open, same)) return;
  std::vector<views::OpenStudy> all;
  for (const std::string& path : open) {
    const auto known = std::ranges::find(studies_.all, path, &views::OpenStudy::path);
    if (known != studies_.all.end()) {
      all.push_back(*known);
      continue;
    }
    const int id = ids_.try_emplace(path, static_cast<int>(ids_.size()) + 1).first->second;
    all.push_back({.id = id,
                   .path = path,
                   .name = std::filesystem::path(path).filename().string(),
                   .table = nullptr,
                   .why_not = ""});
    if (const auto fresh = just_read_.extract(path)) {
      all.back().table = fresh.mapped();
    } else {
      read(path);
    }
  }
  studies_.all = std::move(all);
  revision_.rise();
}

// One of the last session, or one that Undo has brought back: it is on the list whatever comes of it.
void Studies::read(const std::string& path) {
  const auto settle = [this, path](std::shared_ptr<const StudyTable> table, const std::string& why_not) {
    for (views::OpenStudy& study : studies_.all) {
      if (study.path == path && study.table == nullptr) study.table = table, study.why_not = why_not;
    }
    revision_.rise();
  };
  background_.post(
      [this, path, settle]() -> Worker::Finish {
        auto table = std::make_shared<const StudyTable>(read_studies({path}, program_));
        return [table, settle] { settle(table, ""); };
      },
      [this, path, settle](const std::string& text) {
        settle(nullptr, text);
        messages_.notify("the study " + path + " cannot be read: " + text);
      });
}

void Studies::add_text(const std::string& path) {
  const std::string full = full_path(path);
  std::erase(texts_, full);
  texts_.insert(texts_.begin(), full);
  asked_ = {};  // what was looked at is looked at again
  revision_.rise();
}

void Studies::look(const EngineLink& engine) {
  const views::StudyLook& look = selection_.study;
  const views::OpenStudy* study = studies_.shown(look);
  if (study == nullptr || look.point < 0 || look.point >= static_cast<int>(study->table->n_points())) {
    wanted_ = asked_ = {}, looked_at_.reset();
    studies_.run = {};
    return;
  }
  const auto& model = engine.model();
  const bool is_there = model && !engine.is_loading();
  wanted_ = {.table = study->table,
             .row = look.point,
             .piece = look.piece,
             .model_path = engine.model_path(),
             .model = is_there ? model->weights_hash + " " + model->dtype + " " + model->device : "",
             .n_texts = texts_.size()};
  if (wanted_ != asked_ && !looking_) {
    asked_ = wanted_;
    looking_ = true;
    const PointPlace place{.study = study->path,
                           .model_path = engine.model_path(),
                           .model = is_there ? model : std::nullopt,
                           .texts = texts_};
    background_.post(
        [this, key = asked_, place]() -> Worker::Finish {
          auto found = std::make_shared<LookedAt>();
          found->key = key;
          found->point = measured_point(*key.table, key.row, key.piece);
          found->sources = find_sources(found->point, place);
          return [this, found] {
            looking_ = false;
            looked_at_ = std::move(*found);
            revision_.rise();
          };
        },
        [this, key = asked_](const std::string& text) {
          looking_ = false;
          looked_at_ = LookedAt{.key = key, .point = {}, .sources = {}};
          looked_at_->sources.run.why_not = text;
          revision_.rise();
        });
  }
  studies_.run = {};
  if (!knows_point()) {
    studies_.run.why_not = "Looking for the study's model, texts and gates ...";
    if (looked_at_ && looked_at_->key.table == wanted_.table) studies_.run.n_pieces = looked_at_->point.n_pieces;
    return;
  }
  studies_.run = looked_at_->sources.run;
  if (studies_.run.why_not.empty() && engine.run_in_progress() && looked_at_->sources.trace.empty())
    studies_.run.why_not = "A run is in progress.";
}

}  // namespace kvscope::app
