#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "views/figure/cell_runs.h"
#include "views/figure/figure.h"
#include "views/figure/figure_builder.h"
#include "views/figure/render.h"

using namespace kvscope::views;

TEST_CASE("the cell under a cell's centre is that cell, and outside there is none") {
  const Panel panel{"map", {10, 20, 70, 30}, 7, 3};
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 7; ++column) {
      const auto cell = panel.cell_at(panel.cell(row, column).centre());
      REQUIRE(cell.has_value());
      CHECK(*cell == std::pair{row, column});
    }
  }
  CHECK_FALSE(panel.cell_at({9.9, 30}).has_value());
  CHECK_FALSE(panel.cell_at({80, 30}).has_value());
  CHECK_FALSE(Panel{"curve", {0, 0, 10, 10}, 0, 0}.cell_at({5, 5}).has_value());
}

TEST_CASE("CSV quotes what it must and leaves NaN empty") {
  const FigureData data{{{"token", std::vector<std::string>{"a,b", "say \"hi\"", "plain"}},
                         {"value", std::vector<double>{0.1, std::nan(""), 1e-7}},
                         {"n", std::vector<std::int64_t>{-1, 0, 1}}}};
  CHECK(data.to_csv() == "token,value,n\n\"a,b\",0.1,-1\n\"say \"\"hi\"\"\",,0\nplain,1e-07,1\n");
}

TEST_CASE("runs of cells cover every painted cell once, and reach only under painted neighbours") {
  const Colour a{1, 0, 0, 255}, b{2, 0, 0, 255}, none{0, 0, 0, 0};
  const Image image{{0, 0, 1, 1}, 4, 3, {a, a, b, none, a, none, b, b, a, a, a, a}};
  std::vector<int> covered(12, 0);
  for (const CellRun& run : cell_runs(image)) {
    for (int c = run.column; c < run.column + run.n; ++c) {
      ++covered[run.row * 4 + c];
      CHECK(image.pixels[run.row * 4 + c] == run.colour);
      if (run.below) CHECK(image.pixels[(run.row + 1) * 4 + c].a != 0);
    }
    if (run.right) CHECK(image.pixels[run.row * 4 + run.column + run.n].a != 0);
  }
  for (int i = 0; i < 12; ++i) CHECK(covered[i] == (image.pixels[i].a != 0));
}

// A map's hatched cell had the upper left quarter in the colour of the head at that corner.
TEST_CASE("what is painted of a map covers its painted cells and nothing of the others, not at their corners either") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Image image{{3, 5, 40, 30}, 5, 4, {}};
    for (int i = 0; i < 20; ++i) {
      const auto value = static_cast<std::uint8_t>(random() % 3);
      image.pixels.push_back({value, 0, 0, static_cast<std::uint8_t>(value == 0 ? 0 : 255)});
    }
    std::vector<int> whole(20, 0);
    for (const CellRun& run : cell_runs(image)) {
      for (const Box& box : boxes_of(run, image)) {
        for (int i = 0; i < 20; ++i) {
          const Box cell{3 + i % 5 * 8.0, 5 + i / 5 * 7.5, 8, 7.5};
          const double w = std::min(cell.right(), box.right()) - std::max(cell.x, box.x);
          const double h = std::min(cell.bottom(), box.bottom()) - std::max(cell.y, box.y);
          if (w < 1e-9 || h < 1e-9) continue;
          CHECK(image.pixels[i].a != 0);
          if (w > 8 - 1e-9 && h > 7.5 - 1e-9) whole[i] = image.pixels[i] == run.colour ? 1 : 2;
        }
      }
    }
    for (int i = 0; i < 20; ++i) CHECK(whole[i] == (image.pixels[i].a != 0 ? 1 : 0));
  }
}

TEST_CASE("an image is magnified to the resolution by whole factors") {
  const Image image{{0, 0, 144, 36}, 100, 10, std::vector<Colour>(1000, Colour{9, 9, 9, 255})};
  const auto [fx, fy] = magnification(image, 600);
  CHECK(fx * 100 >= 2 * 600);  // 144 pt are 2 in
  CHECK((fx - 1) * 100 < 2 * 600);
  CHECK(fy * 10 >= 0.5 * 600);
  const Image large = magnify(image, {fx, fy});
  CHECK(large.pixels.size() == static_cast<std::size_t>(large.columns) * large.rows);
}

TEST_CASE("round tick values lie in the range, a round step apart") {
  const auto [lo, hi] =
      GENERATE(std::pair{0.0, 1.0}, std::pair{-3.2, 17.0}, std::pair{0.0, 131072.0}, std::pair{0.41, 0.43});
  const auto values = nice_values(lo, hi, 5);
  REQUIRE(values.size() >= 2);
  CHECK(values.size() <= 6);
  const double step = values[1] - values[0], mantissa = step / std::pow(10, std::floor(std::log10(step) + 1e-9));
  CHECK((mantissa == Approx(1) || mantissa == Approx(2) || mantissa == Approx(5)));
  CHECK(values.front() >= lo - 1e-9);
  CHECK(values.back() <= hi + 1e-9);
}

TEST_CASE("a colour bar has at least two labelled ticks, whatever its range") {
  const auto [lo, hi] =
      GENERATE(std::pair{0.0, 1.0}, std::pair{-0.49, 0.49}, std::pair{0.31, 0.93}, std::pair{-7.0, 7.0});
  const double height = GENERATE(40.0, 100.0, 300.0);
  FigureBuilder builder(200, 400, {});
  builder.colour_bar({10, 10, 0, height}, {Colormap::viridis, lo, hi, 0, ""});
  int labels = 0;
  for (const Primitive& item : builder.figure().items) labels += std::holds_alternative<Text>(item);
  CHECK(labels >= 2);
  CHECK(labels <= 9);
}

TEST_CASE("index labels are thinned until they fit") {
  for (int n : {3, 36, 128, 4096}) {
    for (double pitch : {0.1, 2.0, 7.0, 40.0}) {
      const int stride = tick_stride(n, pitch, 9);
      CHECK((stride * pitch >= 9 || stride >= n));
    }
  }
  CHECK(tick_stride(36, 10, 9) == 1);
  CHECK(tick_stride(36, 5, 9) == 2);
}

TEST_CASE("base64 gives the values of its specification") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");  // RFC 4648, section 10
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foob") == "Zm9vYg==");
  CHECK(base64("foobar") == "Zm9vYmFy");
}

TEST_CASE("numbers carry a true minus and no needless digits") {
  CHECK(format_number(0.5) == "0.5");
  CHECK(format_number(-2) == "−2");
  CHECK(format_number(0.12345) == "0.123");
  CHECK(format_number(-0.0) == "0");
  CHECK(format_number(std::nan("")) == "–");
}
