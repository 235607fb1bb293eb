#pragma once
#include <optional>
#include <string>

#include "app/command/ui_state.h"
#include "app/session/session.h"
#include "app/window/film.h"

namespace kvscope::app {

/// Records UiState::film: goes to one query after the other, and takes a picture of each once its views show it. The position
/// from before comes back at the end. All functions on the window's thread.
class FilmRecorder {
 public:
  FilmRecorder(Session& session, UiState& ui) : session_(session), ui_(ui) {}

  bool is_on() const { return ui_.film.has_value(); }
  /// Before a frame is drawn: begins and ends films, goes to the next query. Error text, where one has ended with an error.
  std::string prepare();
  /// This frame shows the query, and the film has room: its pixels may go to take(), once nothing in it waits for an answer.
  bool wants_picture() const;
  /// A frame, rows from top to bottom, RGBA. Error text as above.
  std::string take(Film::Picture frame);
  /// "recording 12 of 80; Esc stops", empty if none is.
  std::string text() const;

 private:
  std::string end(const std::string& error);
  int n_pictures() const;

  Session& session_;
  UiState& ui_;
  std::optional<Film> film_;
  std::optional<std::int32_t> before_;  // the position
  int run_ = 0;                         // of which the film is
  std::int32_t q_ = 0;
  int n_taken_ = 0, n_drawn_ = 0;  // pictures; frames since the query was set
  int width_ = 0, height_ = 0;
  bool finishes_ = false;
};

}  // namespace kvscope::app
