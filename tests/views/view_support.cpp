#include "tests/views/view_support.h"

#include <cairo.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "engine/core/study/table/gate_probe.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/random.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/rebuild.h"

namespace kvscope::test {
namespace {

constexpr int kTurns = 8;
constexpr auto kLongestTurn = std::chrono::seconds(2);
auto now() { return std::chrono::steady_clock::now(); }

}  // namespace

HeadlessWindow::HeadlessWindow(bool dark, ImVec2 size)
    : theme(views::make_theme(dark, 1)),
      services{&textures, &items, &theme},
      context_(ImGui::CreateContext()),
      size_(size) {
  ImGui::SetCurrentContext(context_);
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  // As the OpenGL 3 back end: more than 65536 vertices a list.
  io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset | ImGuiBackendFlags_RendererHasTextures;
  io.Fonts->TexMinWidth = io.Fonts->TexMinHeight =
      4096;  // so that a glyph's place tells which it is, also in the next frame
  io.DisplaySize = size;
  io.DeltaTime = 1.f / 60;
  io.MousePos = {-1, -1};
  views::load_fonts(theme);
  views::apply_theme(theme);
}

// As a renderer would, but for the pixels.
void HeadlessWindow::take_textures() {
  for (ImTextureData* texture : ImGui::GetPlatformIO().Textures) {
    if (texture->Status == ImTextureStatus_WantCreate) texture->SetTexID(1);
    if (texture->Status == ImTextureStatus_WantDestroy) texture->SetTexID(ImTextureID_Invalid);
    const bool gone = texture->Status == ImTextureStatus_WantDestroy;
    texture->SetStatus(gone ? ImTextureStatus_Destroyed : ImTextureStatus_OK);
  }
}

HeadlessWindow::~HeadlessWindow() {
  ImGui::SetCurrentContext(context_);
  for (ImTextureData* texture : ImGui::GetPlatformIO().Textures)
    texture->SetTexID(ImTextureID_Invalid), texture->SetStatus(ImTextureStatus_Destroyed);
  ImGui::DestroyContext(context_);
}

void HeadlessWindow::frame(const std::function<void()>& draw) {
  draw_once(draw);
  // As in the window, a picture that waits for its turn gets another frame: what a test sees does not depend on how long
  // pictures took on a busy machine.
  for (int i = 0; i < kTurns && views::redraw_at != views::kNoRedraw; ++i) {
    std::this_thread::sleep_until(std::min(std::exchange(views::redraw_at, views::kNoRedraw), now() + kLongestTurn));
    draw_once(draw);
  }
}

void HeadlessWindow::draw_once(const std::function<void()>& draw) {
  ImGui::NewFrame();
  items.begin_frame();
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(size_);
  ImGui::Begin("test", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove);
  draw();
  views::end_content_at_cursor();  // as the window does after each view
  ImGui::End();
  ImGui::Render();
  take_textures();
  n_vertices_ = ImGui::GetDrawData()->TotalVtxCount;
}

std::set<std::uint32_t> HeadlessWindow::colours_in(const std::string& item) const {
  std::set<std::uint32_t> colours;
  const auto rect = items.find(item);
  const ImDrawData& drawn = *ImGui::GetDrawData();
  for (int i = 0; rect && i < drawn.CmdLists.Size; ++i) {
    for (const ImDrawVert& vertex : drawn.CmdLists[i]->VtxBuffer) {
      const bool across = vertex.pos.x >= rect->x && vertex.pos.x <= rect->x + rect->w;
      if (across && vertex.pos.y >= rect->y && vertex.pos.y <= rect->y + rect->h) colours.insert(vertex.col);
    }
  }
  return colours;
}

namespace {

using GlyphCorners = std::array<float, 4>;  // of the atlas: left, top, right, bottom

std::map<GlyphCorners, std::uint32_t> glyphs_of_atlas() {
  std::map<GlyphCorners, std::uint32_t> glyphs;
  ImFontAtlasBuilder& builder = *ImGui::GetIO().Fonts->Builder;
  for (int i = 0; i < builder.BakedPool.Size; ++i) {
    for (const ImFontGlyph& glyph : builder.BakedPool[i].Glyphs)
      glyphs[{glyph.U0, glyph.V0, glyph.U1, glyph.V1}] = glyph.Codepoint;
  }
  return glyphs;
}

void append_utf8(std::string& text, std::uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
    return;
  }
  if (c < 0x800) {
    text += static_cast<char>(0xc0 | (c >> 6));
  } else {
    text += static_cast<char>(c < 0x10000 ? 0xe0 | (c >> 12) : 0xf0 | (c >> 18));
    if (c >= 0x10000) text += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
  }
  text += static_cast<char>(0x80 | (c & 0x3f));
}

}  // namespace

std::string HeadlessWindow::written_in(const std::string& item) const {
  const auto rect = items.find(item);
  return rect ? written_in(*rect) : "(not drawn)";
}

std::string HeadlessWindow::written_in(const views::ItemRect& rect) const {
  const std::map<GlyphCorners, std::uint32_t> glyphs = glyphs_of_atlas();
  const ImDrawData& drawn = *ImGui::GetDrawData();
  std::string text;
  const auto within = [](float x, float y, float left, float top, float right, float bottom) {
    return x >= left && x <= right && y >= top && y <= bottom;
  };
  for (int i = 0; i < drawn.CmdLists.Size; ++i) {
    const ImDrawList& list = *drawn.CmdLists[i];
    for (const ImDrawCmd& command : list.CmdBuffer) {
      // The first triangle of a glyph: top left, top right, bottom right.
      for (unsigned k = 0; k + 2 < command.ElemCount; k += 3) {
        const auto vertex = [&](unsigned n) -> const ImDrawVert& {
          return list.VtxBuffer[static_cast<int>(command.VtxOffset +
                                                 list.IdxBuffer[static_cast<int>(command.IdxOffset + k + n)])];
        };
        const ImDrawVert &min = vertex(0), &max = vertex(2);
        const auto glyph = glyphs.find({min.uv.x, min.uv.y, max.uv.x, max.uv.y});
        if (glyph == glyphs.end()) continue;
        const float x = (min.pos.x + max.pos.x) / 2, y = (min.pos.y + max.pos.y) / 2;
        const ImVec4& clip = command.ClipRect;
        if (within(x, y, clip.x, clip.y, clip.z, clip.w) &&
            within(x, y, rect.x, rect.y, rect.x + rect.w, rect.y + rect.h))
          append_utf8(text, glyph->second);
      }
    }
  }
  return text;
}

void HeadlessWindow::click(const std::string& item, const std::function<void()>& draw) {
  const auto rect = items.find(item);
  INFO(item);
  REQUIRE(rect.has_value());
  ImGuiIO& io = ImGui::GetIO();
  io.MousePos = {rect->centre_x(), rect->centre_y()};
  for (bool down : {false, true, false, false}) {
    io.MouseDown[0] = down;
    frame(draw);
  }
  io.MousePos = {-1, -1};
  frame(draw);
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "kvscope-views-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Pixels decode_png(const std::string& bytes) {
  struct Source {
    const std::string& bytes;
    std::size_t at;
  } source{bytes, 0};
  const auto read = [](void* closure, unsigned char* data, unsigned length) {
    auto& s = *static_cast<Source*>(closure);
    if (s.at + length > s.bytes.size()) return CAIRO_STATUS_READ_ERROR;
    std::memcpy(data, s.bytes.data() + s.at, length);
    s.at += length;
    return CAIRO_STATUS_SUCCESS;
  };
  cairo_surface_t* surface = cairo_image_surface_create_from_png_stream(read, &source);
  REQUIRE(cairo_surface_status(surface) == CAIRO_STATUS_SUCCESS);
  Pixels pixels{cairo_image_surface_get_width(surface), cairo_image_surface_get_height(surface), {}};
  const unsigned char* data = cairo_image_surface_get_data(surface);
  const int stride = cairo_image_surface_get_stride(surface);
  for (int y = 0; y < pixels.height; ++y) {
    for (int x = 0; x < pixels.width; ++x) {
      std::uint32_t value = 0;
      std::memcpy(&value, data + static_cast<std::ptrdiff_t>(y) * stride + 4 * x, 4);
      pixels.rgb.push_back(value & 0xffffff);
    }
  }
  cairo_surface_destroy(surface);
  return pixels;
}

Pixels read_png(const std::filesystem::path& path) { return decode_png(read_file(path, 1u << 28)); }

bool program_exists(const char* name) {
  return std::system(("command -v " + std::string(name) + " > /dev/null 2>&1").c_str()) == 0;
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  INFO(command);
  REQUIRE(pclose(pipe) == 0);
  return text;
}

StudyTable preset_study() {
  StudyTable study{.kind = "sweep", .request = "{}", .facts = R"({"model":"a model","device":"cpu"})"};
  const char* methods[] = {"full", "sp-kv", "streaming"};
  const auto numbers = [&](const std::string& name, auto value, const char* units = "") {
    StudyColumn column{.name = name, .units = units, .meaning = "made for tests", .is_text = false};
    for (int i = 0; i < 15; ++i) column.numbers.push_back(value(i));
    study.columns.push_back(std::move(column));
  };
  const auto texts = [&](const std::string& name, auto value) {
    StudyColumn column{.name = name, .units = "", .meaning = "made for tests", .is_text = true};
    for (int i = 0; i < 15; ++i) column.texts.push_back(value(i));
    study.columns.push_back(std::move(column));
  };
  for (const char* name : {"method", "policy", "source"}) texts(name, [&](int i) { return methods[i / 5]; });
  texts("strategy", [](int i) { return std::string(1, "ABD"[i / 5]); });
  texts("item", [](int i) { return i % 2 ? "needle" : "passkey"; });
  for (const char* name : {"step", "prompt_tokens", "read"}) numbers(name, [](int i) { return 64 << i % 5; });
  numbers("share", [](int i) { return 0.2 * (1 + i % 5); });
  numbers("density", [](int i) { return i < 5 ? 1 : 0.1 + 0.18 * (i % 5) + 0.01 * (i / 5); });
  for (const char* name : {"nll_difference", "loss_boundary", "loss_output"})
    numbers(
        name, [](int i) { return i < 5 ? 0 : 0.4 / (1 + i % 5) + 0.02 * (i / 5); }, "nats/token");
  numbers("nll_difference_se", [](int) { return 0.01; });
  for (const char* name : {"accuracy", "coverage", "turnover_again", "turnover_pieces", "gate_mean", "recall"})
    numbers(name, [](int i) { return 0.9 - 0.1 * (i % 5) - 0.02 * (i / 5); });
  numbers("token_accuracy", [](int i) { return 0.5 + 0.02 * i; });
  for (const char* name : {"triggers", "overflows"}) numbers(name, [](int i) { return 10.0 * i; });
  for (const char* name : {"attention_s", "rest_s"})
    numbers(
        name, [](int i) { return 1.0 + i; }, "s");
  for (const char* name : {"ms_per_step", "seconds", "attention_ms", "rest_ms"})
    numbers(
        name, [](int i) { return 2.0 + i; }, "ms");
  for (const char* name : {"cache_bytes", "weight_bytes", "peak_bytes"})
    numbers(
        name, [](int i) { return 1e6 * (1 + i % 5); }, "bytes");
  numbers("on_front", [](int i) { return i >= 5 && i < 10; });
  numbers("is_knee", [](int i) { return i == 7; });
  for (int head = 0; head < 6; ++head)
    numbers("open_0_" + std::to_string(head), [head](int i) { return 1.0 / (1 + 0.1 * head * (i % 5)); });
  study.arrays = probed_training({0, 64}, 2, 3, 24).arrays;
  return study;
}

StudyTable probed_training(const std::vector<double>& steps, int n_layers, int n_kv_heads, int n_tokens) {
  StudyTable study{.kind = std::string(kTrainingStudy), .request = "{}", .facts = ""};
  nlohmann::json pieces = nlohmann::json::array();
  for (int t = 0; t < n_tokens; ++t) pieces.push_back(" word" + std::to_string(t));
  study.facts = nlohmann::json{{"probe", {{"pieces", pieces}}}}.dump();
  study.columns = {{.name = "step", .units = "", .meaning = "", .numbers = steps},
                   {.name = "loss_all", .units = "", .meaning = "", .numbers = std::vector<double>(steps.size(), 1)}};
  for (const double step : steps) {
    GateProbe probe{.step = step, .threshold = 0.5, .n_layers = n_layers, .n_kv_heads = n_kv_heads};
    for (int t = 0; t < n_tokens; ++t) probe.tokens.push_back(t);
    Random random(17, static_cast<std::uint64_t>(step));
    for (int i = 0; i < n_layers * n_kv_heads * n_tokens; ++i)
      probe.scores.push_back(i % n_tokens == n_tokens - 1 ? std::nanf("")
                                                          : static_cast<float>(random.below(999)) / 999);
    add_probe(study, probe);
  }
  return study;
}

StudyTable scaling_study() {
  StudyTable study{.kind = "training", .request = "{}", .facts = "{}"};
  StudyColumn family{.name = "family", .units = "", .meaning = "", .is_text = true},
      flops{.name = "train_flops", .units = "", .meaning = ""}, nll{.name = "nll", .units = "", .meaning = ""};
  for (int i = 0; i < 14; ++i) {
    family.texts.push_back(i < 7 ? "full" : "sp-kv");
    flops.numbers.push_back(1e18 * std::pow(10, i % 7));
    nll.numbers.push_back(1.5 + 2 * std::pow(0.7, i % 7) + 0.01 * (i * i % 3));
  }
  study.columns = {family, flops, nll};
  return study;
}

views::FigureRecipe with_attention(views::FigureRecipe recipe, const RunRecord& run) {
  auto* token = std::get_if<views::TokenAttentionOptions>(&recipe.options);
  if (token == nullptr || token->attention) return recipe;
  auto attention = std::make_shared<TokenAttention>();
  attention->layer = 0, attention->n_heads = run.model.n_heads, attention->n_queries = run.n_tokens();
  attention->tokens = {1};
  for (int i = 0; i < run.model.n_heads * run.n_tokens(); ++i)
    attention->probability.push_back(i % run.n_tokens() < 1 ? std::nanf("") : 1.0F / static_cast<float>(1 + i % 97));
  token->attention = std::move(attention);
  return recipe;
}

views::BuiltFigure build_any(const views::FigureRecipe& recipe, std::span<const RunRecord* const> runs) {
  if (std::holds_alternative<views::ScalingFitOptions>(recipe.options))
    return views::build_figure(recipe, scaling_study());
  return recipe.reads_study() ? views::build_figure(recipe, preset_study())
                              : views::build_figure(with_attention(recipe, *runs[0]), runs);
}

}  // namespace kvscope::test
