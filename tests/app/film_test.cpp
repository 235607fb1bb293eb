// Films: the GIF encoder against a plain reader of the format, ffmpeg against a program that takes its place, and the window.
#include "app/window/film.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "app/window/gif.h"
#include "app/window/palette_cut.h"
#include "engine/core/support/random.h"
#include "tests/app/process.h"
#include "tests/app/window_driver.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::app;
using Catch::Contains;
using test::decode_short;
using test::error_of;

namespace {

using Pixels = std::vector<std::uint32_t>;  // 0xrrggbb

struct Gif {
  int width = 0, height = 0;
  std::vector<Pixels> pictures;  // whole ones, as a player shows them
  std::vector<int> hundredths;
};

/// LZW by its definition: a table of strings, and bits that are read one by one.
std::vector<int> decompress(const std::vector<int>& bytes, int pixel_bits) {
  const int clear = 1 << pixel_bits, end = clear + 1;
  std::vector<std::vector<int>> table;
  const auto start_over = [&] {
    table.assign(static_cast<std::size_t>(end) + 1, {});
    for (int i = 0; i < clear; ++i) table[static_cast<std::size_t>(i)] = {i};
  };
  start_over();
  std::vector<int> out, before;
  int width = pixel_bits + 1;
  for (std::size_t bit = 0; bit + static_cast<std::size_t>(width) <= 8 * bytes.size();) {
    std::size_t code = 0;
    for (int i = 0; i < width; ++i, ++bit) code |= static_cast<std::size_t>(bytes[bit / 8] >> bit % 8 & 1) << i;
    if (code == static_cast<std::size_t>(end)) return out;
    if (code == static_cast<std::size_t>(clear)) {
      start_over(), before.clear(), width = pixel_bits + 1;
      continue;
    }
    if (code > table.size() || (code == table.size() && before.empty())) throw std::runtime_error("LZW: no such code");
    std::vector<int> string = code < table.size() ? table[code] : before;
    if (code == table.size()) string.push_back(before.front());
    if (!before.empty() && table.size() < 4096) {
      table.push_back(before);
      table.back().push_back(string.front());
    }
    if (table.size() == std::size_t{1} << width && width < 12) ++width;
    out.insert(out.end(), string.begin(), string.end());
    before = string;
  }
  throw std::runtime_error("LZW: no end");
}

Gif read_gif(const std::string& file) {
  std::size_t at = 0;
  const auto byte = [&] { return static_cast<int>(static_cast<unsigned char>(file.at(at++))); };
  const auto word = [&] { return byte() | byte() << 8; };
  REQUIRE(file.substr(0, 6) == "GIF89a");
  at = 6;
  Gif gif;
  gif.width = word(), gif.height = word();
  REQUIRE((byte() & 0x80) == 0);
  at += 2;
  Pixels shown(static_cast<std::size_t>(gif.width) * gif.height, 0xffffffff);
  int transparent = -1;
  for (int kind = byte(); kind != ';'; kind = byte()) {
    if (kind == 0x21) {
      if (byte() == 0xf9) {
        REQUIRE(byte() == 4);
        const int flags = byte();
        CHECK(flags >> 2 == 1);  // what was there stays
        gif.hundredths.push_back(word());
        transparent = byte();
        if ((flags & 1) == 0) transparent = -1;
        REQUIRE(byte() == 0);
      } else {
        for (int n = byte(); n > 0; n = byte()) at += static_cast<std::size_t>(n);
      }
      continue;
    }
    REQUIRE(kind == ',');
    const int left = word(), top = word(), width = word(), height = word();
    REQUIRE(byte() == 0x87);
    Pixels colours;
    for (int i = 0; i < 256; ++i) {
      std::uint32_t one = 0;
      for (int c = 0; c < 3; ++c) one = one << 8 | static_cast<std::uint32_t>(byte());
      colours.push_back(one);
    }
    const int pixel_bits = byte();
    std::vector<int> bytes;
    for (int n = byte(); n > 0; n = byte())
      for (int i = 0; i < n; ++i) bytes.push_back(byte());
    const std::vector<int> pixels = decompress(bytes, pixel_bits);
    REQUIRE(std::ssize(pixels) == static_cast<std::ptrdiff_t>(width) * height);
    for (int i = 0; i < width * height; ++i) {
      const int pixel = pixels[static_cast<std::size_t>(i)];
      if (pixel == transparent) continue;
      shown[static_cast<std::size_t>(top + i / width) * gif.width + left + i % width] =
          colours[static_cast<std::size_t>(pixel)];
    }
    gif.pictures.push_back(shown);
  }
  CHECK(at == file.size());
  return gif;
}

std::vector<unsigned char> rgba(const Pixels& pixels) {
  std::vector<unsigned char> bytes;
  for (const std::uint32_t pixel : pixels)
    for (const int shift : {16, 8, 0, -1}) bytes.push_back(shift < 0 ? 7 : static_cast<unsigned char>(pixel >> shift));
  return bytes;
}

Pixels noise(int n, std::uint64_t n_colours, Random& random) {
  Pixels pixels;
  for (int i = 0; i < n; ++i)
    pixels.push_back(static_cast<std::uint32_t>(random.below(n_colours) * 0x010305 & 0xffffff));
  return pixels;
}

int distance(std::uint32_t a, std::uint32_t b) {
  int most = 0;
  for (const int shift : {16, 8, 0})
    most = std::max(most, std::abs(static_cast<int>(a >> shift & 255) - static_cast<int>(b >> shift & 255)));
  return most;
}

/// A program called ffmpeg in front of PATH.
struct FakeFfmpeg {
  explicit FakeFfmpeg(const std::string& script)
      : path("PATH", folder.path().string() + ":" + std::string(std::getenv("PATH"))) {
    std::ofstream(folder / "ffmpeg") << "#!/bin/sh\n" << script;
    std::filesystem::permissions(folder / "ffmpeg", std::filesystem::perms::owner_all);
  }
  test::TemporaryFolder folder;
  test::Variable path;
};

/// What a window that refuses says.
template <typename F>
std::string words_of(const F& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

void finish(Film& film) {
  film.finish();
  while (!film.is_finished()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace

TEST_CASE("GIF: pictures of at most 255 colours come back pixel by pixel, each for its time", "[film]") {
  Random random(1);
  for (const auto& [width, height, n_colours] :
       {std::tuple{1, 1, 1}, {1, 7, 2}, {33, 5, 255}, {257, 301, 200}, {64, 64, 3}}) {
    CAPTURE(width, height);
    GifWriter writer(width, height);
    std::vector<Pixels> pictures{noise(width * height, static_cast<std::uint64_t>(n_colours), random)};
    for (int i = 0; i < 5; ++i) {  // some pixels change
      pictures.push_back(pictures.back());
      for (int n = 0; n < 20; ++n) {
        const std::size_t at = random.below(pictures.back().size());
        pictures.back()[at] = pictures.front()[random.below(pictures.front().size())] ^ 0x808080;
      }
    }
    int ms = 40;
    for (const Pixels& picture : pictures) writer.add(rgba(picture), ms += 10);
    const Gif gif = read_gif(writer.finish());
    CHECK(gif.width == width);
    CHECK(gif.height == height);
    std::size_t shown = 0;  // pictures without a change have no frame of theirs
    int time = 0;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      if (i > 0 && pictures[i] != pictures[i - 1]) {
        CHECK(gif.hundredths.at(shown) == time);
        ++shown, time = 0;
      }
      time += 5 + static_cast<int>(i);
      REQUIRE(gif.pictures.at(shown) == pictures[i]);
    }
    CHECK(gif.pictures.size() == shown + 1);
    CHECK(gif.hundredths.at(shown) == time);
  }
}

TEST_CASE("GIF: of many colours each pixel has the mean of its box, and what does not change stays as it was",
          "[film]") {
  constexpr int kWidth = 256, kHeight = 96;
  Pixels first;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x)
      first.push_back(static_cast<std::uint32_t>(x << 16 | (y << 9 & 0xff00) | (x + y) % 256));
  REQUIRE(std::set(first.begin(), first.end()).size() > 20000);
  Pixels second = first;
  for (int i = 0; i < kWidth * 10; ++i) second[static_cast<std::size_t>(i)] = 0x102030;
  GifWriter writer(kWidth, kHeight);
  writer.add(rgba(first), 100);
  writer.add(rgba(second), 100);
  const Gif gif = read_gif(writer.finish());
  REQUIRE(gif.pictures.size() == 2);
  const PaletteCut palette(first, 255);
  int most = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    REQUIRE(gif.pictures[0][i] == palette.colour(palette.index(first[i])));
    REQUIRE(gif.pictures[1][i] == (i < kWidth * 10 ? 0x102030 : gif.pictures[0][i]));
    most = std::max(most, distance(gif.pictures[0][i], first[i]));
  }
  CHECK(most <= 40);  // of three channels that fill their range; a web palette would be off by 25 at best
}

TEST_CASE("palette: as many colours as asked for, each the mean of the pixels that it stands for", "[film]") {
  Random random(2);
  for (const int most : {1, 2, 17, 255}) {
    CAPTURE(most);
    const Pixels pixels = noise(3000, 900, random);
    const PaletteCut palette(pixels, most);
    std::map<int, std::vector<std::uint32_t>> boxes;
    for (const std::uint32_t pixel : pixels) boxes[palette.index(pixel)].push_back(pixel);
    CHECK(std::ssize(boxes) == most);
    for (const auto& [index, members] : boxes) {
      std::uint32_t mean = 0;
      for (const int shift : {16, 8, 0}) {
        double sum = 0;
        for (const std::uint32_t one : members) sum += one >> shift & 255;
        mean = mean << 8 | static_cast<std::uint32_t>(std::floor(sum / static_cast<double>(members.size()) + 0.5));
      }
      CHECK(palette.colour(index) == mean);
    }
  }
  const Pixels few = noise(500, 40, random);
  const PaletteCut exact(few, 255);
  for (const std::uint32_t pixel : few) REQUIRE(exact.colour(exact.index(pixel)) == pixel);
}

TEST_CASE("film: the file is there when the film has ended, and not before", "[film]") {
  const test::TemporaryFolder folder;
  CHECK_THAT(error_of([&] { Film film(folder / "a.avi", 100); }), Contains(".gif or .mp4"));
  const Film::Picture red{2, 1, rgba({0xff0000, 0xff0000})}, blue{2, 1, rgba({0x0000ff, 0xff0000})};
  {
    Film dropped(folder / "dropped.gif", 100);
    dropped.add(red);
  }
  CHECK_FALSE(std::filesystem::exists(folder / "dropped.gif"));
  Film film(folder / "a.gif", 100);
  for (int i = 0; i < 20; ++i) film.add(i % 2 == 0 ? red : blue);
  finish(film);
  CHECK(read_gif(test::read_text(folder / "a.gif")).pictures.size() == 20);

  Film nowhere(folder / "no/such/folder/a.gif", 100);
  nowhere.add(red);
  CHECK_THAT(error_of([&] { finish(nowhere); }), Contains("a.gif"));
}

TEST_CASE("film: ffmpeg gets the size, the rate and every byte, and its file takes the name at the end", "[film]") {
  const FakeFfmpeg ffmpeg("for last; do :; done; echo \"$@\" > \"$last\"; cat >> \"$last\"");
  const test::TemporaryFolder folder;
  Film film(folder / "a.mp4", 40);
  const Film::Picture picture{3, 1, rgba({0x414243, 0x444546, 0x474849})};
  for (int i = 0; i < 5; ++i) film.add(picture);
  finish(film);
  const std::string file = test::read_text(folder / "a.mp4");
  const std::size_t end = file.find('\n') + 1;
  CHECK_THAT(file.substr(0, end), Contains("-pix_fmt rgba -s 3x1 -r 25 -i -"));
  CHECK_THAT(file.substr(0, end), Contains("a.part.mp4"));
  std::string wanted;
  for (int i = 0; i < 5; ++i) wanted.append(picture.rgba.begin(), picture.rgba.end());
  CHECK(file.substr(end) == wanted);
  CHECK_FALSE(std::filesystem::exists(folder / "a.part.mp4"));
}

TEST_CASE("film: without ffmpeg, or with one that fails, one line says so, and no file is left", "[film]") {
  const test::TemporaryFolder folder;
  {
    const FakeFfmpeg ffmpeg("cat > /dev/null; echo 'no such codec' >&2; exit 1");
    Film film(folder / "a.mp4", 100);
    film.add({1, 1, rgba({1})});
    CHECK_THAT(error_of([&] { finish(film); }), Contains("ffmpeg: no such codec") && Contains("record a .gif"));
  }
  CHECK_FALSE(std::filesystem::exists(folder / "a.mp4"));
  const test::Variable path("PATH", folder.path().string());
  CHECK_THAT(error_of([&] { Film film(folder / "a.mp4", 100); }), Contains("no ffmpeg in PATH"));
}

WINDOW_TEST("A film has a picture of each query that was asked for, and the position comes back", "[film]") {
  decode_short(window);
  window.command("scrub.to", {{"q", 5}});
  window.command("film.record",
                 {{"path", "one.gif"}, {"view", "cache_timeline"}, {"from", 2}, {"to", 11}, {"step", 3}});
  CHECK(window.state()["selection"]["q"] == 5);
  const Gif gif = read_gif(test::read_text(window.folder() / "one.gif"));
  CHECK(gif.pictures.size() == 4);
  CHECK(gif.hundredths == std::vector<int>(4, 10));
  CHECK(gif.width < 1200);  // of a window of 1600
  std::set<Pixels> different(gif.pictures.begin(), gif.pictures.end());
  CHECK(different.size() == 4);

  window.command("film.record", {{"path", "two.gif"}, {"from", 2}, {"to", 5}, {"speed", 20}});
  const Gif whole = read_gif(test::read_text(window.folder() / "two.gif"));
  CHECK(whole.width > 1200);
  CHECK(whole.pictures.size() == 4);
  const auto refusal = [&](const nlohmann::json& arguments) {
    return words_of([&] { window.command("film.record", arguments); });
  };
  CHECK_THAT(refusal({{"path", "a.avi"}}), Contains(".gif or .mp4"));
  CHECK_THAT(refusal({{"path", "a.gif"}, {"view", "no"}}), Contains("one of token_strip"));
  CHECK_THAT(refusal({{"path", "a.gif"}, {"from", 9}, {"to", 3}}), Contains("a query from 9"));
  CHECK_THAT(refusal({{"path", "a.gif"}, {"speed", 99}}), Contains("1 to 50"));
}

WINDOW_TEST("A film that is stopped has the pictures until then", "[film]") {
  decode_short(window);
  // The longer the command may take, the more pictures: until there is one, and long before all.
  for (double timeout = 0.1; timeout < 10 && !std::filesystem::exists(window.folder() / "cut.gif"); timeout *= 2) {
    const std::string words = words_of([&] {
      window.request({{"command", "film.record"}, {"args", {{"path", "cut.gif"}, {"from", 0}}}, {"timeout", timeout}});
    });
    CHECK_THAT(words, Contains("timed out"));
    window.wait({{"/ui/film", nullptr}});
  }
  const Gif gif = read_gif(test::read_text(window.folder() / "cut.gif"));
  CHECK(gif.pictures.size() < 16);
}
