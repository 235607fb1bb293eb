// Pins by text and letter, and the file beside a trace that keeps them: what is read is what was written, and what cannot be
// read stays as it is.

#include "engine/core/trace/trace_notes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "tests/core/trace_support.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

std::string bytes_of(const std::filesystem::path& path) { return read_file(path, 1 << 20); }

RunNotes some_notes(int run, const RunRecord& record) {
  return {.run = run,
          .ids = ids_hash(record),
          .name = "the first",
          .note = "Forgets the name.\nWhy?",
          .pins = {{.letter = 0, .layer = 1, .kv_head = 2, .token = 5, .note = "\"東京\"\n"},
                   {.letter = 3, .layer = 0, .kv_head = 0, .token = 170, .note = ""}}};
}

/// The message of what is thrown.
std::string refusal_of(const std::filesystem::path& trace) {
  try {
    read_notes(trace);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("pins: they are of the text, and a run of it shows those whose tokens and head it has", "[core][notes]") {
  const RunRecord run = random_run(3), shorter = random_run(3, {.n_new = 20}), other = random_run(4);
  const RunRecord small = random_run(3, {.n_layers = 1, .n_kv_heads = 2});
  REQUIRE(std::equal(shorter.ids.begin(), shorter.ids.end(), run.ids.begin()));
  RunRecord parted = run;
  parted.ids[150] += 1;
  PinnedTexts texts;
  CHECK(add_pin(texts, run, 1, 2, 7) == 0);
  CHECK(add_pin(texts, run, 0, 1, 160) == 1);
  const auto place = [&](const RunRecord& in, std::size_t i) { return placed_pins(texts, in).at(i).place; };
  CHECK((place(run, 0) == PinPlace::here && place(run, 1) == PinPlace::here));
  CHECK((place(shorter, 0) == PinPlace::here && place(shorter, 1) == PinPlace::behind_end));
  CHECK((place(parted, 0) == PinPlace::here && place(parted, 1) == PinPlace::other_tokens));
  CHECK((place(small, 0) == PinPlace::no_such_head && place(small, 1) == PinPlace::here));
  CHECK(placed_pins(texts, other).empty());
  CHECK(add_pin(texts, other, 0, 0, 3) == 0);  // another text has letters of its own
  CHECK(find_pin(texts, run, 1, 2, 7) == 0);
  CHECK(find_pin(texts, run, 1, 1, 7) == -1);
  remove_pin(texts, run, 0);
  CHECK(find_pin(texts, run, 1, 2, 7) == -1);
  CHECK(add_pin(texts, run, 1, 1, 9) == 0);  // the letter is free again
  CHECK(pins_of(texts, run).at(1).letter == 1);
}

TEST_CASE("pins: a text that goes on keeps its pins, and the ninth of a text is refused with what to do",
          "[core][notes]") {
  const RunRecord run = random_run(3);
  RunRecord next_turn = run;
  next_turn.prompt_len = 170;  // the next turn of a chat has the first one in its prompt
  PinnedTexts texts;
  for (int t = 0; t < kMaxPins; ++t) CHECK(add_pin(texts, run, 0, 0, 10 * t) == t);
  CHECK(placed_pins(texts, next_turn).size() == kMaxPins);
  const PinnedTexts before = texts;
  CHECK_THROWS_WITH(add_pin(texts, next_turn, 0, 0, 99),
                    Catch::Contains("eight pins, a to h") && Catch::Contains("remove one first"));
  CHECK(texts == before);
  for (int t = 0; t < kMaxPins; ++t) remove_pin(texts, run, t);
  CHECK(texts.empty());
}

TEST_CASE("pins: those that come with a file keep their letters where these are free", "[core][notes]") {
  const RunRecord run = random_run(3);
  PinnedTexts texts;
  add_pin(texts, run, 1, 2, 5);    // a, the same place
  add_pin(texts, run, 0, 1, 100);  // b, in the way
  set_pin_note(texts, run, 0, "old");
  std::vector<Pin> file = some_notes(0, run).pins;
  file.push_back({.letter = 1, .layer = 1, .kv_head = 0, .token = 3, .note = "moved"});
  CHECK(merge_pins(texts, run, file) == 0);
  const std::vector<Pin> pins = pins_of(texts, run);
  REQUIRE(pins.size() == 4);
  CHECK(pins[0].note == "\"東京\"\n");
  CHECK((pins[1].letter == 1 && pins[1].token == 100));
  CHECK((pins[2].letter == 2 && pins[2].token == 3 && pins[2].note == "moved"));
  CHECK((pins[3].letter == 3 && pins[3].token == 170));
  CHECK(merge_pins(texts, run, file) == 0);  // once more changes nothing
  CHECK(pins_of(texts, run) == pins);
  for (int t = 20; t < 24; ++t) add_pin(texts, run, 0, 0, t);
  CHECK(merge_pins(texts, run, {{.letter = 0, .layer = 0, .kv_head = 0, .token = 60, .note = ""}}) == 1);
}

TEST_CASE("trace notes: what is written is read again, and notes of other runs stay", "[core][notes]") {
  const ScratchFolder folder;
  const auto trace = folder / "a.h5";
  CHECK(notes_file(trace).filename() == "a.h5.notes.json");
  CHECK(read_notes(trace).empty());
  const RunNotes first = some_notes(0, random_run(3)), third = some_notes(2, random_run(4));
  update_notes(trace, {third});
  update_notes(trace, {first});
  CHECK(read_notes(trace) == std::vector{first, third});
  const auto json = nlohmann::json::parse(bytes_of(notes_file(trace)));
  CHECK(json["format"].get<std::string>() == "kvscope-notes");
  CHECK(json["version"].get<int>() == 1);
  CHECK(json["runs"][0]["pins"][1]["letter"].get<std::string>() == "d");
  RunNotes replaced = some_notes(0, random_run(5));  // another run stands in the place of the first
  replaced.note = "of the new one";
  update_notes(trace, {replaced});
  CHECK(read_notes(trace) == std::vector{first, replaced, third});
  update_notes(trace, {{.run = 0, .ids = first.ids}, {.run = 0, .ids = replaced.ids}});
  CHECK(read_notes(trace) == std::vector{third});
  update_notes(trace, {{.run = 2, .ids = third.ids}});
  CHECK_FALSE(std::filesystem::exists(notes_file(trace)));
}

TEST_CASE("trace notes: a file that is damaged, newer or of another kind is one line, and stays as it is",
          "[core][notes]") {
  const ScratchFolder folder;
  const auto trace = folder / "a.h5";
  const std::string run = R"({"run": 0, "ids": "aa", "pins": [)";
  const auto pin = [](const std::string& letter, const std::string& token) {
    return R"({"letter": ")" + letter + R"(", "layer": 0, "kv_head": 0, "token": )" + token + "}";
  };
  const auto file = [](const std::string& runs) {
    return R"({"format": "kvscope-notes", "version": 1, "runs": [)" + runs + "]}";
  };
  const std::pair<std::string, std::string> cases[] = {
      {"{\"format\": \"kvscope-no", "line 1"},
      {"[]", "object"},
      {R"({"runs": []})", "kvscope-notes"},
      {R"({"format": "kvscope-notes", "version": 2, "runs": []})", "written by a newer kvscope"},
      {file(run + pin("i", "3") + "]}"), "a to h"},
      {file(run + pin("a", "3") + "," + pin("a", "4") + "]}"), "two pins with the letter a"},
      {file(run + pin("a", "-1") + "]}"), "token"},
      {file(run + pin("a", "1e9") + "]}"), "token"},
      {file(run + "7]}"), "object"},
      {file(R"({"run": -1, "ids": "aa"})"), "run"},
      {file(R"({"run": 0})"), "ids"},
      {file(R"({"run": 0, "ids": "a", "note": ")" + std::string(kMaxNote + 1, 'x') + "\"}"), "at most 16384"}};
  for (const auto& [bytes, part] : cases) {
    CAPTURE(bytes.substr(0, 200));
    std::ofstream(notes_file(trace)) << bytes;
    CHECK_THAT(refusal_of(trace), Catch::Contains(part));
    CHECK_THAT(refusal_of(trace), !Catch::Contains("\n") && Catch::Contains("a.h5.notes.json"));
    CHECK_THROWS_AS(update_notes(trace, {some_notes(0, random_run(3))}), Error);
    CHECK(bytes_of(notes_file(trace)) == bytes);
  }
}

TEST_CASE("trace notes: every cut and every changed byte is notes or one line", "[core][notes]") {
  const ScratchFolder folder(true);
  const auto trace = folder / "a.h5";
  update_notes(trace, {some_notes(0, random_run(3)), some_notes(1, random_run(4))});
  const std::string whole = bytes_of(notes_file(trace));
  int refused = 0;
  const auto read = [&](const std::string& bytes) {
    std::ofstream(notes_file(trace), std::ios::binary) << bytes;
    try {
      read_notes(trace);
    } catch (const Error& error) {
      ++refused;
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
    }
  };
  for (std::size_t i = 0; i + 2 < whole.size(); ++i) read(whole.substr(0, i));
  CHECK(refused == static_cast<int>(whole.size()) - 2);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char c : {'\0', '9', '"', '}', '\x80', '-'}) {
      std::string changed = whole;
      changed[i] = c;
      read(changed);
    }
  }
}
