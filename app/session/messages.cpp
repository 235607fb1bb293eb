#include "app/session/messages.h"

#include <algorithm>
#include <utility>

#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kLogLines = 1000;
constexpr std::ptrdiff_t kNews = 4;     // banners that are no errors
constexpr std::ptrdiff_t kErrors = 50;  // of an engine that sends nothing else; the log has them all
constexpr std::chrono::seconds kNoticeTime(8);
constexpr std::size_t kShort = 90;  // bytes that the status line of a small window has room for
bool restarts(const Banner& banner) { return banner.command == "engine.restart" || banner.command == "run.resume"; }

/// The oldest of too many errors, or of too many others, goes: news never takes the place of an error.
void keep_newest(std::vector<Banner>& banners, bool errors, std::ptrdiff_t most) {
  const auto is_one = [errors](const Banner& banner) { return (banner.kind == Banner::Kind::error) == errors; };
  if (std::ranges::count_if(banners, is_one) > most) banners.erase(std::ranges::find_if(banners, is_one));
}

}  // namespace

void Messages::add_banner(Banner banner) {
  banner.id = next_banner_id_++;
  // The same message twice is one message: a failing request that is repeated must not fill the window.
  std::erase_if(banners_, [&](const Banner& other) { return other.text == banner.text; });
  banners_.push_back(std::move(banner));
  keep_newest(banners_, false, kNews);
  keep_newest(banners_, true, kErrors);
  revision_.rise();
}

void Messages::add_engine_error(std::string text, std::string button, std::string command) {
  add_banner({.kind = Banner::Kind::error,
              .text = std::move(text),
              .command = std::move(command),
              .button = std::move(button),
              .cured = true});
}

void Messages::add_engine_fault(std::string text) {
  log("error: " + text);
  add_banner(
      {.kind = Banner::Kind::error, .text = std::move(text), .command = "engine.restart", .button = "Restart engine"});
}

void Messages::dismiss_banner(int id) {
  std::erase_if(banners_, [id](const Banner& banner) { return banner.id == id; });
  revision_.rise();
}

void Messages::engine_restarted() {
  std::erase_if(banners_, [](const Banner& banner) { return banner.cured; });
  for (Banner& banner : banners_) {
    if (restarts(banner)) banner.command.clear(), banner.button.clear();
  }
  revision_.rise();
}

void Messages::log(std::string line) {
  log_.push_back(utc_now().substr(11, 8) + "  " + line);
  if (log_.size() > kLogLines) log_.pop_front();
  revision_.rise();
}

void Messages::notify(std::string text, std::function<bool()> holds) {
  log(text);
  notice_holds_ = std::move(holds);
  notice_ = std::move(text);
  notice_is_fresh_ = true;
  notice_time_ = std::chrono::steady_clock::now();
}

void Messages::refuse(std::string text) {
  if (text.size() <= kShort) return notify(std::move(text));
  log(text);
  add_banner({.kind = Banner::Kind::warning, .text = std::move(text)});
}

void Messages::poll() {
  const bool young = std::chrono::steady_clock::now() - notice_time_ < kNoticeTime;
  if (!notice_is_fresh_ || (young && (!notice_holds_ || notice_holds_()))) return;
  notice_is_fresh_ = false;
  revision_.rise();
}

}  // namespace kvscope::app
