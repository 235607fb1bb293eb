// Layers by tokens: the numbers, the picture of any size, the pane, and that a huge run costs a frame what is on the screen.
#include <time.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <thread>

#include "tests/support/random_run.h"
#include "tests/views/view_stage.h"
#include "views/cache_timeline_view.h"
#include "views/figure/figure_builder.h"
#include "views/figure/layer_strip_image.h"
#include "views/figure/recipe.h"
#include "views/token_strip_view.h"
#include "views/view_list.h"
#include "views/widgets/time_deck.h"
#include "views/widgets/token_finder.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

RunRecord growing() {
  RunRecord run = random_run(7, {.prompt_len = 150, .n_new = 30});
  run.status = RunStatus::running;
  run.n_queries = 130;
  for (int l = 0; l < 2; ++l) {
    for (int h = 0; h < 3; ++h) run.evict_at.row(l, h).resize(static_cast<std::size_t>(100 + 10 * h));
  }
  return run;
}

/// A sink went, and a token that was still in the window.
RunRecord evicted_early() {
  RunRecord run = random_run(3);
  run.evict_at.row(1, 0)[2] = 50;
  run.evict_at.row(0, 0)[135] = 138;
  run.evict_at.row(0, 1)[2] = 60;
  return run;
}

/// As long as it says, without scores and oracle: every 4th token stays, others go once they leave the window.
RunRecord synthetic_run(int n_layers, int n_kv_heads, int n_tokens) {
  RunRecord run;
  run.model.n_layers = n_layers, run.model.n_kv_heads = n_kv_heads;
  run.model.n_heads = n_kv_heads;
  run.policy = PolicySpec::parse("threshold:threshold=0.5,sinks=4,window=256");
  run.n_positions = n_tokens;
  run.prompt_len = n_tokens / 2;
  run.ids.resize(static_cast<std::size_t>(n_tokens), 5);
  for (int t = 0; t < n_tokens; ++t) run.pieces.push_back(t % 11 == 0 ? "key" : " word");
  run.logprobs.resize(static_cast<std::size_t>(n_tokens), -1.f);
  run.evict_at = LifetimeMap(n_layers, n_kv_heads);
  for (int l = 0; l < n_layers; ++l) {
    for (int h = 0; h < n_kv_heads; ++h) {
      auto& row = run.evict_at.row(l, h);
      row.resize(static_cast<std::size_t>(n_tokens));
      for (int t = 0; t < n_tokens; ++t)
        row[static_cast<std::size_t>(t)] = t < 4 || (t * 7 + l * 3 + h) % 4 == 0 ? kNever : t + 256;
    }
  }
  run.status = RunStatus::complete;
  return run;
}

}  // namespace

TEST_CASE("A cell of the strip of layers has the mean number of heads over the tokens that were chosen on") {
  const RunRecord run =
      GENERATE(random_run(3), evicted_early(), growing(), random_run(5, {.policy = "streaming:sinks=4,window=60"}));
  const std::int32_t q = GENERATE(2, 90, 140, 179);
  const TokenSpan span = GENERATE(TokenSpan{0, 180}, TokenSpan{37, 101});
  const int columns = GENERATE(1, 13, 64, 500);
  const SpanCells cells(span, columns);
  const LayerStrip strip = layer_strip(run, q, cells);
  REQUIRE(strip.columns == cells.cells);
  for (int layer = 0; layer < strip.rows; ++layer) {
    const HeadAtQuery head(run, layer, 0, q);
    for (int c = 0; c < strip.columns; ++c) {
      double sum = 0;
      int n = 0;
      for (std::int32_t t = cells.begin(c); t < cells.begin(c + 1); ++t) {
        if (head.chosen(t)) sum += kept_heads(run, layer, t, q), ++n;
      }
      const float got = strip.heads[static_cast<std::size_t>(layer * strip.columns + c)];
      CAPTURE(layer, c, n);
      if (n == 0) {
        REQUIRE(std::isnan(got));
      } else {
        REQUIRE(got == Approx(sum / n));
      }
    }
  }
}

TEST_CASE("The strip of layers on the screen and the one on paper have the same colours") {
  const RunRecord run = random_run(3);
  const SpanCells cells({0, 150}, 2000);
  const Image screen = layer_strip_image(layer_strip(run, 150, cells), 3, Colormap::viridis);
  const BuiltFigure paper =
      token_strip_figure(run, {.q = 150, .count = 150, .first = 0, .evictable_only = false, .bands = 1}, {});
  const Image* image = nullptr;
  for (const Primitive& item : paper.figure.items) {
    const auto* found = std::get_if<Image>(&item);  // the colour bar is one too
    if (found != nullptr && found->columns == 150) image = found;
  }
  REQUIRE(image != nullptr);
  CHECK((image->pixels == screen.pixels));
}

TEST_CASE("On paper too, a column of several tokens has their mean, and the numbers behind it are the columns'") {
  const RunRecord run = synthetic_run(2, 4, 5000);
  const BuiltFigure built =
      token_strip_figure(run, {.count = 5000, .first = 0, .evictable_only = false, .bands = 1, .labels = false}, {});
  CHECK(built.figure.panel("strip")->columns == kMaxStripColumns);
  CHECK(built.data.n_rows() == 2u * kMaxStripColumns);
  CHECK(built.caption.find("the mean of up to 3 tokens") != std::string::npos);
  std::int64_t tokens = 0;
  for (const FigureColumn& column : built.data.columns) {
    if (column.name == "tokens")
      for (const std::int64_t n : std::get<std::vector<std::int64_t>>(column.values)) tokens += n;
  }
  CHECK(tokens == 2 * 5000);
}

TEST_CASE("The strip shows text or layers, and its figure shows what it shows") {
  Stage<TokenStripView> s(random_run(3), {.q = 150});
  s.draw();
  CHECK(s.has("strip.token.0"));
  s.window.click("strip.rows.1", [&] { s.view.draw(s.context); });
  CHECK(s.selection.layers);
  CHECK_FALSE(s.has("strip.token.0"));
  CHECK(s.has("layers.strip"));
  CHECK(s.text("strip.title") == "KV heads keeping each token, by layer");
  CHECK(s.view.layer_picture().is_current());
  s.selection.view = {20, 120};
  s.draw();
  const auto figure = s.view.figure(s.context);
  REQUIRE(figure);
  const auto& options = std::get<TokenStripOptions>(figure->options);
  CHECK(options.layer == -1);
  CHECK(options.q == 150);
  CHECK(options.first == 20);
  CHECK(options.count == 100);
  CHECK(options.bands == 1);
  CHECK_FALSE(options.evictable_only);
  s.selection.q = 70;  // no more than was read
  s.draw();
  CHECK(std::get<TokenStripOptions>(s.view.figure(s.context)->options).count == 51);
}

TEST_CASE("A click in the strip of layers selects layer and token, the card says how many heads retain it") {
  Stage<TokenStripView> s(random_run(3), {.q = 150, .layers = true});
  s.selection.view = {20, 60};
  s.draw();
  const auto rect = *s.window.items.find("layers.strip");
  ImGuiIO& io = ImGui::GetIO();
  io.MousePos = {rect.x + rect.w * (10.5f / 40), rect.y + rect.h * 0.75f};
  for (const bool down : {false, true, false}) {
    io.MouseDown[0] = down;
    s.draw(1);
  }
  CHECK(s.selection.layer == 1);
  CHECK(s.selection.token == 30);
  CHECK(s.selection.hovered_token == 30);
  CHECK(s.text("layers.card") ==
        "layer 1: " + std::to_string(kept_heads(*s.a.run, 1, 30, 150)) + " of 3 KV heads keep it");
  CHECK_FALSE(s.has("layers.tokens_per_pixel"));
  io.MouseWheel = 2;
  s.draw(1);
  io.MouseWheel = 0;
  CHECK(shown_span(s.selection, 180).size() == Approx(40 * 0.64).margin(1));
  CHECK(shown_span(s.selection, 180).contains(30));
}

TEST_CASE("Text follows the scrub position, and stays where a person scrolled it") {
  Stage<TokenStripView> s(synthetic_run(1, 2, 6000), {.q = 0});
  s.draw();
  REQUIRE(s.view.n_lines() > 150);
  CHECK(s.has("strip.token.0"));
  s.selection.q = 3000;
  s.draw();
  CHECK(s.has("strip.token.3000"));
  s.selection.q = 3001;
  s.draw();
  const auto before = s.window.items.find("strip.token.3001");
  s.selection.q = 3002;
  s.draw();
  CHECK(s.window.items.find("strip.token.3001")->y == before->y);  // in sight already: nothing jumps
  ImGui::GetIO().MousePos = {before->x, before->y};
  for (int i = 0; i < 30; ++i) {
    ImGui::GetIO().MouseWheel = 5;
    s.draw(1);
  }
  ImGui::GetIO().MouseWheel = 0;
  s.draw();
  REQUIRE_FALSE(s.has("strip.token.3002"));
  s.selection.q = 4000;
  s.draw();
  CHECK_FALSE(s.has("strip.token.4000"));
  s.selection.q.reset();  // following again, and scrubbing again
  s.draw();
  s.selection.q = 5000;
  s.draw();
  CHECK(s.has("strip.token.5000"));
  s.selection.view = {1000, 1400};  // the other views went there
  s.draw();
  CHECK(s.has("strip.token.1000"));
}

// After a start the strip was at its beginning: the run had come to a pane that got its size in the frame behind.
TEST_CASE("What is selected when a run comes is in sight also where the pane gets another size in the frame behind") {
  const RunRecord run = random_run(3);
  for (const ImVec2 size : {ImVec2{400, 300}, ImVec2{520, 240}, ImVec2{300, 320}}) {
    Stage<TokenStripView> s(run, {.token = 130, .q = 150}, {400, 260});
    s.draw(1);
    s.window.resize(size);
    s.draw(1);
    s.window.resize({size.x + 20, size.y});  // and again
    s.draw(3);
    CHECK(s.has("strip.token.130"));
    CHECK_FALSE(s.has("strip.token.0"));
  }
}

TEST_CASE("In a window of another size the text that was looked at stays in sight, and a change back leaves it there") {
  Stage<TokenStripView> s(synthetic_run(1, 2, 6000), {.q = 0}, {1600, 900});
  s.draw();
  const auto first = [&] {
    for (int t = 0; t < 6000; ++t)
      if (s.has("strip.token." + std::to_string(t))) return t;
    return -1;
  };
  const ItemRect strip = *s.window.items.find("strip.token.0");
  ImGui::GetIO().MousePos = {strip.centre_x() + 20, strip.centre_y() + 100};
  for (int i = 0; i < 20; ++i) {
    ImGui::GetIO().MouseWheel = -5;
    s.draw(1);
  }
  ImGui::GetIO().MouseWheel = 0;
  ImGui::GetIO().MousePos = {-1, -1};
  s.draw();
  const int before = first();
  REQUIRE(before > 500);
  for (const ImVec2 size : {ImVec2{700, 900}, ImVec2{700, 400}, ImVec2{1600, 900}}) {
    s.window.resize(size);
    s.draw(4);
    CAPTURE(size.x, size.y, first());
    CHECK(std::abs(first() - before) < 60);  // within a line or two
  }
  s.selection.q.reset();  // following again, and scrubbing again
  s.draw();
  s.selection.q = 3000;
  s.draw(4);
  REQUIRE(s.has("strip.token.3000"));
  s.window.resize({500, 500});
  s.draw(4);
  CHECK(s.has("strip.token.3000"));
}

// Once it had stood at the first token, or a banner had made it smaller, it stayed there through the run after a restart.
TEST_CASE("Text follows the end of a run that goes on, and stays where a person scrolled it until another run comes") {
  Stage<TokenStripView> s(synthetic_run(1, 2, 6000));
  s.draw();
  CHECK(s.has("strip.token.5999"));  // of a run that is over, too
  const auto show_running = [&](int n) {
    RunRecord run = synthetic_run(1, 2, n);
    run.status = RunStatus::running;
    s.a = test::shown(std::move(run));
    s.a.revision = static_cast<std::uint64_t>(n);
    s.draw();
  };
  show_running(3000);
  CHECK(s.has("strip.token.2999"));
  show_running(3400);
  CHECK(s.has("strip.token.3399"));
  const auto rect = *s.window.items.find("strip.token.3399");
  ImGui::GetIO().MousePos = {rect.x, rect.y};
  ImGui::GetIO().MouseWheel = 1;
  s.draw(1);
  ImGui::GetIO().MouseWheel = 0;
  show_running(3800);
  CHECK(s.has("strip.token.3200"));
  CHECK_FALSE(s.has("strip.token.3799"));
  show_running(2000);
  CHECK(s.has("strip.token.1999"));
  s.a = test::shown(synthetic_run(1, 2, 2400));  // with its last tokens it is complete
  s.a.revision = 2400;
  s.draw();
  CHECK(s.has("strip.token.2399"));
}

TEST_CASE("Where another run becomes A its text stands at the scrub position, or at its end while that is followed") {
  Stage<TokenStripView> s(synthetic_run(1, 2, 4000));
  s.draw();
  CHECK(s.has("strip.token.3999"));  // as after a start with the runs of the last one
  const auto show = [&](RunRecord run) {
    s.a = test::shown(std::move(run));
    s.draw();
  };
  RunRecord other = synthetic_run(1, 2, 3000);
  other.ids[0] += 1;
  show(other);
  CHECK(s.has("strip.token.2999"));
  show(synthetic_run(1, 2, 6000));
  CHECK(s.has("strip.token.5999"));
  s.selection.q = 500;
  s.draw();
  s.selection.token = 2900;
  s.draw();
  REQUIRE_FALSE(s.has("strip.token.500"));
  show(other);
  CHECK(s.has("strip.token.500"));
}

TEST_CASE("A search is made again where its text, the head or the query changed, and what is wrong stays said") {
  Stage<TokenStripView> s(random_run(3), {.q = 100});
  TokenFinder finder;
  const auto line = [&](const char* text) {
    s.selection.find = text;
    for (int i = 0; i < 3; ++i) finder.update(s.context);
    return finder.line(s.selection);
  };
  CHECK(line("").empty());
  CHECK(s.context.hits == nullptr);
  CHECK(line("score>") == "\"score>\": expected a number after \"score>\"");
  CHECK(finder.is_wrong());
  CHECK(finder.hits().tokens.empty());
  CHECK(line("position>=40 & position<43") == "3 tokens");
  CHECK_FALSE(finder.is_wrong());
  CHECK(*s.context.hits == std::vector<std::int32_t>{40, 41, 42});
  s.selection.token = 41;
  CHECK(finder.line(s.selection) == "2 of 3 tokens");
  CHECK(line("age=5") == "1 token");
  CHECK(s.context.hits->front() == 95);
  s.selection.q = 120;
  for (int i = 0; i < 2000 && s.context.hits->front() != 115; ++i) {  // not more often than its cost allows
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    finder.update(s.context);
  }
  CHECK(s.context.hits->front() == 115);
  CHECK(line("no such text") == "no matches");
}

TEST_CASE("Shift and a drag mark a range, whose share in the head and in all heads is said") {
  const bool layers = GENERATE(false, true);
  Stage<TokenStripView> s(random_run(3), {.layer = 1, .kv_head = 2, .q = 150, .layers = layers});
  s.draw();
  ImGuiIO& io = ImGui::GetIO();
  const auto at = [&](int token) {
    if (!layers) {
      const auto rect = *s.window.items.find("strip.token." + std::to_string(token));
      return ImVec2{rect.centre_x(), rect.centre_y()};
    }
    const auto rect = *s.window.items.find("layers.strip");
    return ImVec2{rect.x + rect.w * (static_cast<float>(token) + 0.5f) / 180, rect.centre_y()};
  };
  hold({.shift = true});
  for (const auto& [token, down] : {std::pair{40, false}, {40, true}, {50, true}, {69, true}, {69, false}}) {
    io.MousePos = at(token);
    io.MouseDown[0] = down;
    s.draw(1);
  }
  hold({});
  CHECK(s.selection.brush == TokenSpan{40, 70});
  CHECK(s.selection.token == -1);
  int in_head = 0, in_all = 0;
  for (int t = 40; t < 70; ++t) {
    in_head += visible(150, t, s.a.run->evict_at.row(1, 2)[static_cast<std::size_t>(t)]);
    for (int l = 0; l < 2; ++l) in_all += kept_heads(*s.a.run, l, t, 150);
  }
  for (int i = 0; i < 100 && s.text("strip.brush").find("40–69") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    s.draw(1);
  }
  const std::string expected = "tokens 40–69: " + std::to_string(in_head) + " of 30 in the cache, mean " +
                               format_number(in_all / 60.0, 3) + " of 3 heads per layer";
  CHECK(s.text("strip.brush") == expected);
}

TEST_CASE("What was found is marked in the text") {
  Stage<TokenStripView> s(random_run(3));
  const std::vector<std::int32_t> hits{3, 17};
  s.context.hits = &hits;
  s.draw();
  CHECK(s.has("strip.hit.3"));
  CHECK(s.has("strip.hit.17"));
  CHECK_FALSE(s.has("strip.hit.4"));
}

TEST_CASE("36 layers, 8 heads and 131072 tokens are zoomed and moved with the work of what is on the screen") {
  constexpr int kTokens = 131072, kFrames = 40;
  HeadlessWindow window(true, {1400, 700});
  const ShownRun a = shown(synthetic_run(36, 8, kTokens));
  Selection selection{.layers = true};
  ViewContext context{&a, nullptr, &selection, nullptr};
  TokenStripView strip(window.services);
  CacheTimelineView timeline(window.services);
  TimeDeck deck(window.services);
  const auto draw = [&] {
    for (const auto& [name, view] : {std::pair<const char*, View*>{"a", &strip}, {"b", &timeline}}) {
      ImGui::BeginChild(name, {690, 500});
      view->draw(context);
      ImGui::EndChild();
      ImGui::SameLine();
    }
    ImGui::NewLine();
    deck.draw(context, 130);
  };
  window.frame(draw);
  const auto settle = [&] {
    for (int i = 0; i < 2000 && !strip.layer_picture().is_current(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      window.frame(draw);
    }
    REQUIRE(strip.layer_picture().is_current());
  };
  settle();
  CHECK(strip.layer_picture().n_looked_at() == 0);  // all of it beside the window

  std::int64_t most_pixels = 0, most_looked_at = 0;
  int most_vertices = 0;
  for (int i = 0; i < kFrames; ++i) {
    const std::int64_t pixels = window.textures.n_pixels(), looked_at = strip.layer_picture().n_looked_at();
    const TokenSpan span = shown_span(selection, kTokens);
    show_span(selection, i < kFrames / 2 ? zoom_span(span, kTokens, 0.6, 0.3) : pan_span(span, kTokens, 3), *a.run);
    if (i == kFrames / 2) show_span(selection, {40000, 90000}, *a.run);
    if (i > 3 * kFrames / 4) scrub_to(selection, 40000 + 500 * i, *a.run);
    window.frame(draw);
    most_pixels = std::max(most_pixels, window.textures.n_pixels() - pixels);
    most_looked_at = std::max(most_looked_at, strip.layer_picture().n_looked_at() - looked_at);
    most_vertices = std::max(most_vertices, window.n_vertices());
  }
  CHECK(most_pixels < 1400 * 700);
  CHECK(most_looked_at <= LayerStripPicture::kAtOnce);
  CHECK(most_vertices < 40000);
  show_span(selection, {40000, 90000}, *a.run);
  selection.q = 80000;
  settle();
  CHECK(window.items.text("layers.tokens_per_pixel")->ends_with(" tokens/px"));
}

// By name only: the window's own processor time on this machine, without rasterising.
TEST_CASE("Frames of every view over a live run of 36 x 8 x 131072", "[.bench]") {
  constexpr int kTokens = 131072, kFrames = 300;
  HeadlessWindow window(true, {1600, 1000});
  ShownRun a = shown(synthetic_run(36, 8, kTokens));
  Selection selection{.layers = true};
  ViewContext context{&a, nullptr, &selection, nullptr};
  const ViewList views = make_views(window.services);
  TimeDeck deck(window.services);
  std::map<std::string, std::vector<double>> times;
  const auto cpu_ms = [] {  // of this thread alone, so that a busy machine counts the same
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) * 1e-6;
  };
  const auto timed = [&](const std::string& name, const auto& work) {
    const double begin = cpu_ms();
    work();
    times[name].push_back(cpu_ms() - begin);
  };
  for (int i = 0; i < kFrames; ++i) {
    const TokenSpan span = shown_span(selection, kTokens);
    if (i % 100 < 30) show_span(selection, zoom_span(span, kTokens, 0.9, 0.3), *a.run);
    if (i % 100 >= 30 && i % 100 < 60) show_span(selection, pan_span(span, kTokens, 200), *a.run);
    if (i % 100 >= 60 && i % 100 < 90) scrub_to(selection, 60000 + 100 * i, *a.run);
    if (i % 100 == 95) show_span(selection, {}, *a.run);
    if (i % 6 == 0) ++a.revision;  // ten snapshots a second
    timed("frame", [&] {
      window.draw_once([&] {
        for (const auto& view : views) {
          ImGui::BeginChild(view->kind(), {380, 800});
          timed(view->kind(), [&] { view->draw(context); });
          ImGui::EndChild();
          ImGui::SameLine();
        }
        ImGui::NewLine();
        timed("time_deck", [&] { deck.draw(context, 130); });
      });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (auto& [name, list] : times) {
    std::ranges::sort(list);
    const auto share = [&](double f) {
      return list[static_cast<std::size_t>(f * static_cast<double>(list.size() - 1))];
    };
    std::printf("%-16s p50 %6.2f  p95 %6.2f  p99 %6.2f  max %6.2f ms\n", name.c_str(), share(0.5), share(0.95),
                share(0.99), list.back());
  }
}
