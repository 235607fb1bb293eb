#pragma once
// A window without a display, a folder that cleans up after itself, and pixels of a PNG: for the tests of views.

#include <imgui.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/core/study/table/study_table.h"
#include "views/figure/recipe.h"
#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::test {

/// ImGui without a renderer: frames are laid out and clicked, textures are counted, nothing is painted.
class HeadlessWindow {
 public:
  explicit HeadlessWindow(bool dark = true, ImVec2 size = {1600, 900});
  ~HeadlessWindow();
  HeadlessWindow(const HeadlessWindow&) = delete;
  HeadlessWindow& operator=(const HeadlessWindow&) = delete;

  /// One frame with one window of the whole size, filled by `draw`; more of them where a picture waits for its turn.
  void frame(const std::function<void()>& draw);
  /// From the next frame on.
  /// A frame alone, whether or not a picture waits for its turn: for who measures frames.
  void draw_once(const std::function<void()>& draw);
  void take_textures();
  void resize(ImVec2 size) { size_ = size; }
  /// Moves the mouse to the item, then presses and releases over three frames. REQUIREs that the item is on the screen.
  void click(const std::string& item, const std::function<void()>& draw);
  int n_vertices() const { return n_vertices_; }
  /// What was painted within the item in the last frame, as ImGui has colours: one or more corners of each shape.
  std::set<std::uint32_t> colours_in(const std::string& item) const;
  /// The characters that were painted within it in the last frame, in the order of painting and without blanks: read
  /// from the glyphs of the draw lists, whatever the registry says of the item.
  std::string written_in(const views::ItemRect& rect) const;
  std::string written_in(const std::string& item) const;

  views::NullTextureBackend textures;
  views::ItemRegistry items;
  views::Theme theme;
  views::ViewServices services;

 private:
  ImGuiContext* context_;
  ImVec2 size_;
  int n_vertices_ = 0;
};

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// A training of three columns whose gates were probed at these steps: random scores, the last token has none; threshold 0.5.
StudyTable probed_training(const std::vector<double>& steps, int n_layers, int n_kv_heads, int n_tokens);

/// A study with every column that a preset draws: three strategies and methods over five points each.
StudyTable preset_study();
/// Two families of seven models each, as a fit of scaling wants them.
StudyTable scaling_study();
/// The recipe with the attention of a token of `run`, where it is of one and has none.
views::FigureRecipe with_attention(views::FigureRecipe recipe, const RunRecord& run);
/// A preset's figure: of preset_study() or scaling_study(), or of as many of `runs` as there are.
views::BuiltFigure build_any(const views::FigureRecipe& recipe, std::span<const RunRecord* const> runs);

struct Pixels {
  int width = 0, height = 0;
  std::vector<std::uint32_t> rgb;  // 0xRRGGBB, row-major
  std::uint32_t at(int x, int y) const { return rgb[static_cast<std::size_t>(y) * width + x]; }
};
Pixels read_png(const std::filesystem::path& path);
Pixels decode_png(const std::string& bytes);

bool program_exists(const char* name);
/// stdout of a command line; REQUIREs that it succeeds.
std::string output_of(const std::string& command);

}  // namespace kvscope::test
