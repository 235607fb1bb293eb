#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace kvscope::app {

/// Pictures of one size that become a film: an animated GIF, or, for .mp4, what ffmpeg makes of them. A thread encodes.
class Film {
 public:
  struct Picture {
    int width = 0, height = 0;
    std::vector<unsigned char> rgba;  // rows from top to bottom
  };
  /// What writes one kind of file. Functions throw Error.
  class Encoder {
   public:
    virtual ~Encoder() = default;
    virtual void add(const Picture& picture) = 0;
    /// The file is whole when it returns.
    virtual void finish() = 0;
  };

  /// ms: how long each picture is shown. Throws Error (usage) for another ending, and (resource) for .mp4 without ffmpeg.
  Film(const std::filesystem::path& path, int ms);
  /// Ends the thread. Without finish() no file is left.
  ~Film();

  /// Whether add() would not wait.
  bool is_ready() const;
  /// All pictures as large as the first one. Throws what encoding an earlier one threw.
  void add(Picture picture);
  /// To be called once; then poll is_finished().
  void finish();
  /// Throws what went wrong.
  bool is_finished();

 private:
  void encode_all();
  std::unique_ptr<Encoder> encoder_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Picture> waiting_;
  bool ends_ = false, finishes_ = false, finished_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: starts when the rest is there
};

/// film_gif.cpp, film_ffmpeg.cpp
std::unique_ptr<Film::Encoder> gif_encoder(const std::filesystem::path& path, int ms);
std::unique_ptr<Film::Encoder> ffmpeg_encoder(const std::filesystem::path& path, int ms);

}  // namespace kvscope::app
