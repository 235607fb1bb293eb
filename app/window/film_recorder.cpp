#include "app/window/film_recorder.h"

#include <imgui.h>
#include <imgui_internal.h>  // FindWindowByName

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/window/dock.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr int kSettled = 2;  // frames until what a view found out in one is shown by the others

/// The part of a frame that a view takes, in its pixels; the whole frame for none.
Film::Picture cut_out(Film::Picture frame, const std::string& view) {
  if (view.empty()) return frame;
  const ImGuiWindow* window = ImGui::FindWindowByName(dock_name("", view).c_str());
  if (window == nullptr || !window->WasActive)
    throw Error({.code = ExitCode::usage, .file = "view", .found = "\"" + view + "\" is not on screen"});
  const ImGuiIO& io = ImGui::GetIO();
  const auto pixel = [](float at, float scale, int most) {
    return std::clamp(static_cast<int>(std::lround(at * scale)), 0, most);
  };
  const ImVec2 scale = io.DisplayFramebufferScale, min = window->Pos, size = window->Size;
  const int left = pixel(min.x, scale.x, frame.width), right = pixel(min.x + size.x, scale.x, frame.width);
  const int top = pixel(min.y, scale.y, frame.height), bottom = pixel(min.y + size.y, scale.y, frame.height);
  Film::Picture part{right - left, bottom - top, {}};
  for (int y = top; y < bottom; ++y) {
    const auto row = frame.rgba.begin() + (static_cast<std::ptrdiff_t>(y) * frame.width + left) * 4;
    part.rgba.insert(part.rgba.end(), row, row + static_cast<std::ptrdiff_t>(part.width) * 4);
  }
  if (part.rgba.empty())
    throw Error({.code = ExitCode::usage, .file = "view", .found = "\"" + view + "\" has no room"});
  return part;
}

}  // namespace

int FilmRecorder::n_pictures() const { return (ui_.film->to - ui_.film->from) / ui_.film->step + 1; }

std::string FilmRecorder::prepare() {
  if (!is_on()) return {};
  const views::ShownRun* shown = session_.runs().shown_a();
  try {
    if (!film_) {
      film_.emplace(ui_.film->path, ui_.film->ms);
      before_ = session_.selection().q;
      run_ = session_.runs().a_id();
      q_ = ui_.film->from, n_taken_ = n_drawn_ = width_ = 0, finishes_ = false;
    }
    const bool is_gone = shown == nullptr || session_.runs().a_id() != run_;
    if (!finishes_ && (is_gone || ui_.film->stop || q_ > ui_.film->to)) {
      film_->finish();
      finishes_ = true;
    }
    if (finishes_) return film_->is_finished() ? end("") : "";
    session_.selection().play.on = false;
    views::scrub_to(session_.selection(), q_, *shown->run);
    ++n_drawn_;
    return {};
  } catch (const Error& error) {
    return end(error.what());
  }
}

bool FilmRecorder::wants_picture() const { return film_ && !finishes_ && n_drawn_ >= kSettled && film_->is_ready(); }

std::string FilmRecorder::take(Film::Picture frame) {
  try {
    Film::Picture picture = cut_out(std::move(frame), ui_.film->view);
    if (n_taken_ == 0) width_ = picture.width, height_ = picture.height;
    if (picture.width != width_ || picture.height != height_) {  // somebody has moved something: the film ends with it
      ui_.film->stop = true;
      return {};
    }
    film_->add(std::move(picture));
    ++n_taken_, n_drawn_ = 0;
    q_ += ui_.film->step;
    return {};
  } catch (const Error& error) {
    return end(error.what());
  }
}

std::string FilmRecorder::end(const std::string& error) {
  const std::string path = ui_.film->path;
  ui_.film.reset();
  film_.reset();
  session_.selection().q = before_;
  if (!error.empty()) {
    session_.messages().refuse(error);
  } else if (n_taken_ == 0) {
    session_.messages().notify("no film: it was stopped before its first picture");
  } else {
    session_.messages().notify("saved " + path + ", " + std::to_string(n_taken_) + " pictures");
  }
  return error;
}

std::string FilmRecorder::text() const {
  if (!is_on() || !film_) return {};
  return "recording " + std::to_string(n_taken_) + " of " + std::to_string(n_pictures()) + "; Esc stops";
}

}  // namespace kvscope::app
