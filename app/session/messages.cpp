#include "app/session/messages.h"

#include <utility>

#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kLogLines = 1000;
constexpr std::size_t kBanners = 4;
constexpr std::chrono::seconds kNoticeTime(8);
/// What takes such a banner away when it is done.
bool restarts(const Banner& banner) { return banner.command == "engine.restart" || banner.command == "run.resume"; }

}  // namespace

void Messages::add_banner(Banner banner) {
  banner.id = next_banner_id_++;
  // The same message twice is one message: a failing request that is repeated must not fill the window.
  std::erase_if(banners_, [&](const Banner& other) { return other.text == banner.text; });
  banners_.push_back(std::move(banner));
  if (banners_.size() > kBanners) banners_.erase(banners_.begin());
  revision_.rise();
}

void Messages::add_engine_error(std::string text, std::string button, std::string command) {
  add_banner({.kind = Banner::Kind::error,
              .text = std::move(text),
              .command = std::move(command),
              .button = std::move(button)});
}

void Messages::dismiss_banner(int id) {
  std::erase_if(banners_, [id](const Banner& banner) { return banner.id == id; });
  revision_.rise();
}

void Messages::dismiss_engine_errors() { std::erase_if(banners_, restarts); }

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

void Messages::poll() {
  const bool young = std::chrono::steady_clock::now() - notice_time_ < kNoticeTime;
  if (!notice_is_fresh_ || (young && (!notice_holds_ || notice_holds_()))) return;
  notice_is_fresh_ = false;
  revision_.rise();
}

}  // namespace kvscope::app
