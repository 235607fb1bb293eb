// The gallery has what the program draws, and says of it what holds now.

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "tests/app/process.h"
#include "tests/support/folders.h"
#include "views/figure/recipe.h"

using namespace kvscope;

namespace {

std::string gallery() { return test::read_text(test::source_folder() / "docs/records/gallery.md"); }

/// From its heading to the next one; empty if there is none.
std::string section_of(const std::string& page, const std::string& name) {
  const std::string heading = "\n### " + name + "\n";
  const std::size_t from = page.find(heading);
  if (from == std::string::npos) return "";
  return page.substr(from + heading.size(), page.find("\n### ", from + 1) - from - heading.size());
}

/// Its lines between the commands and the caption.
std::string note_of(const std::string& section) {
  const std::size_t from = section.rfind("\n```\n"), to = section.find("\n> ");
  if (from == std::string::npos || to == std::string::npos || to < from + 5) return "";
  const std::string note = section.substr(from + 5, to - from - 5);
  return note.find_first_not_of(" \n") == std::string::npos ? "" : note;
}

}  // namespace

TEST_CASE("the gallery shows every preset: its command, a picture, what differs from the paper, and the caption") {
  const std::string page = gallery();
  for (const views::FigurePreset& preset : views::figure_presets()) {
    const std::string name(preset.name), section = section_of(page, name);
    CAPTURE(name);
    REQUIRE_FALSE(section.empty());
    CHECK(section.find("\n![" + name + "](gallery/" + name + ".png)\n") != std::string::npos);
    CHECK(std::filesystem::file_size(test::source_folder() / ("docs/records/gallery/" + name + ".png")) > 1000);
    CHECK(section.find("\nkvscope figure --preset " + name + " ") != std::string::npos);
    CHECK_FALSE(note_of(section).empty());
    CHECK(section.find("\n> ") != std::string::npos);
  }
}

TEST_CASE("a front in the gallery goes by the size of the cache, and figures without a preset are named") {
  const std::string page = gallery();
  CHECK(page.find("less density") == std::string::npos);
  for (const char* other : {"WG-KV 14", "WG-KV 15"}) {
    CAPTURE(other);
    CHECK(page.find(other) != std::string::npos);
  }
  CHECK_FALSE(note_of(section_of(page, "kvpop-fig5-variants")).empty());  // the first version's Fig. 3
}
