// Defines ffmpeg_encoder.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>

#include "app/support/program_path.h"
#include "app/window/film.h"
#include "engine/core/support/child_process.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLongestEnd{60};

/// Raw pictures to ffmpeg's standard input. It writes beside the file, which takes the name when it is whole.
class FfmpegEncoder : public Film::Encoder {
 public:
  FfmpegEncoder(fs::path path, int ms, fs::path tool) : path_(std::move(path)), ms_(ms), tool_(std::move(tool)) {
    part_ = path_;
    part_.replace_extension(".part.mp4");
  }
  ~FfmpegEncoder() override {
    ffmpeg_.reset();
    std::error_code error;
    fs::remove(part_, error);
  }

  void add(const Film::Picture& picture) override {
    if (!ffmpeg_) start(picture);
    for (std::size_t sent = 0; sent < picture.rgba.size();) {
      const ssize_t n = ::write(ffmpeg_->stdin_fd(), picture.rgba.data() + sent, picture.rgba.size() - sent);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail();
      sent += static_cast<std::size_t>(n);
    }
  }

  void finish() override {
    if (!ffmpeg_) return;
    ffmpeg_->close_stdin();
    if (ffmpeg_->wait(kLongestEnd) != 0) fail();
    fs::rename(part_, path_);
  }

 private:
  void start(const Film::Picture& picture) {
    const std::string size = std::to_string(picture.width) + "x" + std::to_string(picture.height);
    // Players want yuv420p, whose sides are even.
    ffmpeg_.emplace(ChildProcess::start({tool_.string(), "-loglevel", "error",     "-y",
                                         "-f",           "rawvideo",  "-pix_fmt",  "rgba",
                                         "-s",           size,        "-r",        std::to_string(1000 / ms_),
                                         "-i",           "-",         "-vf",       "pad=ceil(iw/2)*2:ceil(ih/2)*2",
                                         "-pix_fmt",     "yuv420p",   "-movflags", "+faststart",
                                         part_.string()}));
  }

  [[noreturn]] void fail() {
    ffmpeg_->close_stdin();
    const std::optional<int> status = ffmpeg_->wait(std::chrono::seconds(5));
    std::array<char, 2000> text{};
    pollfd ready{ffmpeg_->stderr_fd(), POLLIN, 0};
    const ssize_t n = ::poll(&ready, 1, 0) > 0 ? ::read(ffmpeg_->stderr_fd(), text.data(), text.size()) : 0;
    const std::string said(text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, n)));
    throw Error({.code = ExitCode::resource,
                 .file = path_.string(),
                 .found = "ffmpeg: " + (said.empty() ? status ? describe_wait_status(*status) : "does not end"
                                                     : said.substr(0, said.find('\n'))),
                 .hint = "record a .gif instead"});
  }

  fs::path path_, part_;
  int ms_;
  fs::path tool_;
  std::optional<ChildProcess> ffmpeg_;
};

}  // namespace

std::unique_ptr<Film::Encoder> ffmpeg_encoder(const fs::path& path, int ms) {
  fs::path tool = program_path("ffmpeg");
  if (tool.empty()) {
    throw Error({.code = ExitCode::resource,
                 .file = path.string(),
                 .found = "no ffmpeg in PATH",
                 .expected = "ffmpeg, to make an .mp4",
                 .hint = "install ffmpeg, or record a .gif"});
  }
  return std::make_unique<FfmpegEncoder>(path, ms, std::move(tool));
}

}  // namespace kvscope::app
