#include "engine/core/files/tokenizer/text_steps_json.h"

#include "engine/core/files/tokenizer/json_steps.h"

namespace kvscope {
namespace {

using nlohmann::json;

class Reader : JsonStepReader {
 public:
  Reader(const json& root, std::string file) : JsonStepReader(std::move(file)), root_(root) {}

  TextSteps read() {
    if (has("normalizer")) read_normalizer(root_["normalizer"], "normalizer");
    if (has("pre_tokenizer") && !finds_nothing(root_["pre_tokenizer"])) {
      read_pre_tokenizer(root_["pre_tokenizer"], "pre_tokenizer");
    } else if (out_.normalizer.marks) {
      out_.of_characters = true;
    } else {
      fail("pre_tokenizer", "missing",
           "ByteLevel alone or after Split or Digits, Metaspace, or a normalizer that writes blanks as U+2581");
    }
    const bool marks_twice = out_.normalizer.changes() && (!out_.of_characters || out_.metaspace.changes());
    if (marks_twice) {
      fail("normalizer", "Prepend or Replace together with a pre_tokenizer is not supported", "one of the two");
    }
    read_decoder();
    return out_;
  }

 private:
  bool has(const char* key) const {
    const auto it = root_.find(key);
    return it != root_.end() && !it->is_null();
  }

  void read_normalizer(const json& raw, const std::string& where) {
    const JsonObject object(raw, file_, where);
    const std::string type = object.text("type");
    if (type == "NFC") {
      out_.nfc = true;
    } else if (type == "Prepend") {
      demand_text(object, where, "prepend", kBlankMark);
      if (out_.normalizer.prefix != BlankRule::Prefix::none) fail(where, "a second Prepend is not supported", "one");
      out_.normalizer.prefix = BlankRule::Prefix::every;
    } else if (type == "Replace") {
      read_replace(object, where, " ", kBlankMark);
      out_.normalizer.marks = true;
    } else if (type == "Sequence") {
      const json& list = elements(raw, where, "normalizers");
      for (std::size_t i = 0; i < list.size(); ++i) read_normalizer(list[i], where + "[" + std::to_string(i) + "]");
    } else {
      unsupported(where, type, "\"NFC\" or null, or \"Prepend\" and \"Replace\" of U+2581");
    }
  }

  /// {"pattern": {"String": from}, "content": to}
  void read_replace(const JsonObject& object, const std::string& where, std::string_view from, std::string_view to) {
    const json& raw = object.raw();
    if (!raw.contains("pattern")) fail(where + ".pattern", "missing", "{\"String\": " + in_quotes(from) + "}");
    demand_text(JsonObject(raw["pattern"], file_, where + ".pattern"), where + ".pattern", "String", from);
    demand_text(object, where, "content", to);
  }

  /// Gemma's: Split at blanks after a normalizer that leaves none, so all of the text is one piece.
  bool finds_nothing(const json& raw) const {
    const JsonObject object(raw, file_, "pre_tokenizer");
    if (!out_.normalizer.marks || object.text("type") != "Split" || !raw.contains("pattern")) return false;
    const JsonObject pattern(raw["pattern"], file_, "pre_tokenizer.pattern");
    if (pattern.text_or("String", "") != " ") return false;
    object.text("behavior");  // any: each cuts only where something is found
    if (object.boolean_or("invert", false)) fail("pre_tokenizer.invert", "true is not supported", "false");
    return true;
  }

  void read_pre_tokenizer(const json& raw, const std::string& where) {
    const JsonObject object(raw, file_, where);
    const std::string type = object.text("type");
    if (type == "ByteLevel") return read_byte_level(object, true, "");
    if (type == "Metaspace") return read_metaspace(object, where);
    if (type != "Sequence") unsupported(where, type, "\"ByteLevel\", \"Metaspace\" or \"Sequence\"");
    const json& list = elements(raw, where, "pretokenizers");
    if (list.size() == 1) return read_pre_tokenizer(list[0], where + "[0]");
    if (list.size() != 2) fail(where, std::to_string(list.size()) + " steps", "Split or Digits, then ByteLevel");
    const std::string first = JsonObject(list[0], file_, where + "[0]").text("type");
    const bool digits = first == "Digits";
    if (digits) {
      const bool single = JsonObject(list[0], file_, where + "[0]").boolean_or("individual_digits", false);
      out_.digits = single ? DigitPieces::single : DigitPieces::runs;
    } else {
      read_split(typed(list[0], where + "[0]", "Split"), where + "[0]");
    }
    read_byte_level(typed(list[1], where + "[1]", "ByteLevel"), digits, digits ? "Digits" : "a Split");
  }

  /// `after`: what goes before it; empty if nothing does.
  void read_byte_level(const JsonObject& object, bool splits, const std::string& after) {
    const bool use_regex = object.boolean_or("use_regex", true);
    if (use_regex != splits) {
      fail("pre_tokenizer.use_regex", use_regex ? "true after a Split" : "false without a Split",
           splits ? "true" : "false");
    }
    out_.add_prefix_space = object.boolean_or("add_prefix_space", true);
    if (!after.empty() && out_.add_prefix_space) {
      fail("pre_tokenizer.add_prefix_space", "true after " + after + " is not supported", "false");
    }
  }

  void read_metaspace(const JsonObject& object, const std::string& where) {
    out_.of_characters = true;
    demand_text(object, where, "replacement", kBlankMark);
    const std::string scheme = object.text_or("prepend_scheme", "always");
    using Prefix = BlankRule::Prefix;
    if (scheme == "first") {
      out_.metaspace.prefix = Prefix::missing_at_start;
    } else if (scheme == "always") {
      out_.metaspace.prefix = Prefix::missing;
    } else if (scheme != "never") {
      fail(where + ".prepend_scheme", in_quotes(scheme), "\"first\", \"always\" or \"never\"");
    }
    // What older files say instead; the package refuses a contradiction.
    if (!object.boolean_or("add_prefix_space", true) && scheme != "never") {
      fail(where + ".add_prefix_space", "false with a prepend_scheme of " + in_quotes(scheme), "\"never\"");
    }
    out_.metaspace.marks = true;
    out_.split_at_blanks = object.boolean_or("split", true);
  }

  void read_split(const JsonObject& object, const std::string& where) {
    const json& raw = object.raw();
    if (!raw.contains("pattern")) fail(where + ".pattern", "missing", "{\"Regex\": ...}");
    const std::string pattern = JsonObject(raw["pattern"], file_, where + ".pattern").text("Regex");
    constexpr SplitPattern kKnown[] = {SplitPattern::qwen2, SplitPattern::llama3, SplitPattern::tekken,
                                       SplitPattern::o200k};
    const auto known = std::ranges::find(kKnown, pattern, pattern_text);
    if (known == std::end(kKnown)) {
      fail(where + ".pattern.Regex", in_quotes(pattern, 200) + " is not supported",
           "the pattern of Qwen2, Llama 3, Mistral Nemo or gpt-oss");
    }
    out_.split = *known;
    demand_text(object, where, "behavior", "Isolated");
    if (object.boolean_or("invert", false)) fail(where + ".invert", "true is not supported", "false");
  }

  void read_decoder() {
    if (!out_.of_characters) {
      if (!has("decoder")) return;
      const std::string type = JsonObject(root_["decoder"], file_, "decoder").text("type");
      if (type != "ByteLevel") unsupported("decoder", type, "\"ByteLevel\" or null");
      return;
    }
    // Without Fuse, Strip would take a blank from every token; without Replace, U+2581 would be printed.
    const std::string expected = "a Sequence of Replace, ByteFallback, Fuse and Strip";
    if (!has("decoder")) fail("decoder", "missing", expected);
    const json& raw = root_["decoder"];
    typed(raw, "decoder", "Sequence");
    const json& list = elements(raw, "decoder", "decoders");
    if (list.size() < 3 || list.size() > 4) fail("decoder", std::to_string(list.size()) + " steps", expected);
    read_replace(typed(list[0], "decoder[0]", "Replace"), "decoder[0]", kBlankMark, " ");
    typed(list[1], "decoder[1]", "ByteFallback");
    typed(list[2], "decoder[2]", "Fuse");
    if (list.size() < 4) return;
    const JsonObject strip = typed(list[3], "decoder[3]", "Strip");
    demand_text(strip, "decoder[3]", "content", " ");
    strip.integer("stop", 0, 0);
    out_.strip_leading_blank = strip.integer("start", 0, 1) == 1;
  }

  const json& root_;
  TextSteps out_;
};

}  // namespace

TextSteps read_text_steps(const json& root, const std::string& file) { return Reader(root, file).read(); }

}  // namespace kvscope
