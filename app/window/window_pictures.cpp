// AppWindow: screenshots and the pictures of films.
#include "app/window/app_window.h"
#include "app/window/png.h"
#include "engine/core/support/error.h"
#include "engine/core/support/under_way.h"
#include "views/widgets/rebuild.h"

namespace kvscope::app {

/// Once no view of this frame or the one before waited for an answer. In mid-run each token brings new questions: then at once.
bool AppWindow::is_picture_due() {
  constexpr int kStillFrames = 2;
  const int begun = UnderWay::begun();
  const bool waits = std::exchange(answers_begun_, begun) != begun || UnderWay::n() > 0 ||
                     session_.preview().pending() || redraw_at_ != views::kNoRedraw;
  still_frames_ = waits ? 0 : still_frames_ + 1;
  const bool is_wanted = !ui_.screenshot.empty() || film_.wants_picture();
  return is_wanted && (still_frames_ >= kStillFrames || session_.run_in_progress());
}

void AppWindow::take_picture() {
  Film::Picture picture;
  picture.rgba = window_.read_pixels(picture.width, picture.height);
  if (!ui_.screenshot.empty()) save_screenshot(picture);
  if (!film_.wants_picture()) return;
  if (const std::string error = film_.take(std::move(picture)); !error.empty() && script_) script_error_ = error;
}

void AppWindow::save_screenshot(const Film::Picture& picture) {
  const std::string path = std::exchange(ui_.screenshot, "");
  try {
    write_png(path, picture.width, picture.height, picture.rgba);
    session_.messages().notify("saved " + path);
  } catch (const Error& error) {
    session_.messages().notify(error.what());
    if (script_) script_error_ = error.what();
  }
}

}  // namespace kvscope::app
